//! What commands and programs find of this machine: environment variables, certificates.

pub(crate) const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// They are about the user's session on this machine, and would mislead a program in an image.
const OF_THE_SESSION: [&str; 10] =
    ["HOME", "LANG", "LANGUAGE", "LOGNAME", "MAIL", "PATH", "SHELL", "SHLVL", "TERM", "USER"];

const KINDS_OF_THE_SESSION: [&str; 4] = ["FENCEPOST_", "LC_", "LD_", "XDG_"];

const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

const CERTIFICATES_ELSEWHERE: [&str; 3] =
    ["/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"];

/// The certificates that this machine trusts: an image that was unpacked has none.
pub(crate) fn certificates() -> Option<String> {
    [CERTIFICATES].iter().chain(&CERTIFICATES_ELSEWHERE).find_map(|path| std::fs::read_to_string(path).ok())
}

/// What a command of `setup` finds in an image: the user's settings (proxies, settings of package managers),
/// but nothing that says where something lies on this machine, such as `GOROOT` and `PYTHONPATH`.
pub(crate) fn variables_in_an_image() -> Vec<(String, String)> {
    let misleads = |name: &str, value: &str| {
        let is_place = value.starts_with('/') && value != CERTIFICATES;
        is_place
            || OF_THE_SESSION.contains(&name)
            || KINDS_OF_THE_SESSION.iter().any(|kind| name.starts_with(kind))
    };
    let own = [("HOME", "/tmp"), ("LANG", "C.UTF-8"), ("SSL_CERT_FILE", CERTIFICATES)];
    let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let users = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, value)| !misleads(name, value));
    // The user's own come last, and so win.
    own.into_iter().chain(users).collect()
}
