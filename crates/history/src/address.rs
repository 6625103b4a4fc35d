/// The address without user, password, `?` and `#` parts, which may be secret; `ssh://USER@HOST` stays.
pub fn without_secrets(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").map_or(("", address), |parts| parts);
    let scheme = if scheme.is_empty() { String::new() } else { format!("{scheme}://") };
    let (place, behind) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
    // Of a password that was not encoded, and of one in a query: nothing says where it ends.
    if behind.contains('@') {
        return scheme + "…";
    }
    let (login, place) = place.rsplit_once('@').unwrap_or(("", place));
    let has_password = login.contains(':') || login.to_ascii_lowercase().contains("%3a");
    match scheme == "ssh://" && !login.is_empty() && !has_password {
        true => format!("{scheme}{login}@{place}"),
        false => scheme + place,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_form_of_an_address_shows_its_password() {
        for (address, shown) in [
            ("http://host/debian", "http://host/debian"),
            ("http://ann:hunter2@host/debian", "http://host/debian"),
            ("http://hunter2@host/debian", "http://host/debian"),
            ("http://ann%3Ahunter2@host:80/debian", "http://host:80/debian"),
            ("http://ann:hun/ter2@host/debian", "http://host/debian"),
            ("http://ann:hun@ter2@host/debian", "http://host/debian"),
            ("http://ann:hun?ter2@host/debian", "http://…"),
            ("http://ann:hun#ter2@host/debian", "http://…"),
            ("redis://host?password=hunter2", "redis://host"),
            ("redis://host?password=hunter2@x", "redis://…"),
            ("ann:hunter2@host:1", "host:1"),
            ("tcp://ann:hunter2@host:2375", "tcp://host:2375"),
            ("ssh://ann@host", "ssh://ann@host"),
            ("ssh://ann:hunter2@host", "ssh://host"),
            ("unix:///run/docker.sock", "unix:///run/docker.sock"),
        ] {
            assert_eq!(without_secrets(address), shown, "{address}");
        }
    }
}
