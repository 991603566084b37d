"""Pure rendering: terminal tables and plots, and one self-contained HTML page."""
