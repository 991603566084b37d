"""What differs between servers; starting the embedded one."""
