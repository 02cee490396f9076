"""Disk: HOME, sealed files, output places and the run's folder, the inbox, the frame."""
