//! Which requests are answered: on loopback, those by a local name; elsewhere, those with the token.

use axum::extract::Request;
use axum::http::header::{COOKIE, HOST, LOCATION, SET_COOKIE};
use axum::http::{StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::io::Read;

#[derive(Clone, Debug)]
pub enum Access {
    /// A local name in `Host`: else a foreign page could lead its own name here, and read all.
    LocalName,
    /// The token, in its address at first and in a cookie from then on.
    Token(String),
}

impl Access {
    /// What is asked for on this address. Errors: the machine gives no random bytes.
    pub fn on(address: std::net::IpAddr) -> std::io::Result<Access> {
        if address.is_loopback() {
            return Ok(Access::LocalName);
        }
        let mut bytes = [0; 16];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Access::Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// What follows the address of the first page.
    pub fn query(&self) -> String {
        match self {
            Access::LocalName => String::new(),
            Access::Token(token) => format!("/?{NAME}={token}"),
        }
    }

    pub async fn check(self, request: Request, next: Next) -> Response {
        match self {
            Access::LocalName if has_local_name(&request) => next.run(request).await,
            Access::LocalName => (StatusCode::FORBIDDEN, "ask by a name of this machine").into_response(),
            Access::Token(token) if cookie(&request).is_some_and(|shown| shown == token) => {
                next.run(request).await
            }
            Access::Token(token) if in_query(request.uri()).is_some_and(|shown| shown == token) => {
                let cookie = format!("{NAME}={token}; HttpOnly; SameSite=Strict; Path=/");
                let headers = [(SET_COOKIE, cookie), (LOCATION, request.uri().path().to_owned())];
                (StatusCode::SEE_OTHER, headers).into_response()
            }
            Access::Token(_) => {
                let sentence = "open the whole address that `fencepost serve` printed: it ends with a token";
                (StatusCode::FORBIDDEN, sentence).into_response()
            }
        }
    }
}

const NAME: &str = "token";

fn has_local_name(request: &Request) -> bool {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, port)| match port.parse::<u16>() {
        Ok(_) => name,
        Err(_) => host,
    });
    name == "localhost"
        || name.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn cookie(request: &Request) -> Option<&str> {
    let cookies = request.headers().get(COOKIE)?.to_str().ok()?;
    cookies.split(';').find_map(|cookie| cookie.trim().strip_prefix(NAME)?.strip_prefix('='))
}

fn in_query(uri: &Uri) -> Option<&str> {
    uri.query()?.split('&').find_map(|part| part.strip_prefix(NAME)?.strip_prefix('='))
}
