"""Dataset cards: one Markdown file per task, the only declaration of that task."""
