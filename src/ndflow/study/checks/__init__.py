"""What is doubtful about a study: scans compared with each other, and sites with each other."""
