"""Names and addresses of this machine."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches an address.

    Examples
    --------
    >>> [is_loopback(one) for one in ("localhost", "127.0.0.2", "::1", "0.0.0.0", "localhost.example")]
    [True, True, True, False, False]
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
