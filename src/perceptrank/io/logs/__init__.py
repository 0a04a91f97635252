"""Read logs of clicks, from files and from live search engines."""
