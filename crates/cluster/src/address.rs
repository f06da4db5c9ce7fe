//! Parsing of server addresses.

use refloat_wire::options::DEFAULT_PORT;

/// Host and port of `10.0.0.1:3306`, `[::1]:3306` or `db1`. `None` for `AUTO`, `unspecified` and an
/// empty address.
pub(crate) fn host_and_port(address: &str) -> Option<(String, u16)> {
    if address.is_empty()
        || address.eq_ignore_ascii_case("AUTO")
        || address.eq_ignore_ascii_case("unspecified")
    {
        return None;
    }
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            (host, port.parse().ok()?)
        }
        _ => (address, DEFAULT_PORT),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    // An arbitrator reports port 0.
    (port != 0 && !host.is_empty()).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let some = |host: &str, port| Some((host.to_owned(), port));
        assert_eq!(host_and_port("10.0.0.1:3307"), some("10.0.0.1", 3307));
        assert_eq!(host_and_port("[fe80::1]:3307"), some("fe80::1", 3307));
        assert_eq!(host_and_port("fe80::1"), some("fe80::1", 3306));
        assert_eq!(host_and_port("db1"), some("db1", 3306));
        for none in ["", "AUTO", "db1:0", "db1:x", ":3306"] {
            assert_eq!(host_and_port(none), None, "{none}");
        }
    }
}
