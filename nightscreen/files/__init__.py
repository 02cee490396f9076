"""Files on disk: HOME, sealed files, run folders, output URLs, the inbox; and the frame."""
