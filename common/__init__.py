"""The ground: errors, settings, debugging."""
