//! HTTP checks: 200 if the node may take traffic, 503 if not, each with the reason.

use std::io::{self, Write as _};
use std::net::TcpStream;
use std::time::Instant;

use super::{CLIENT_PATIENCE, Health};

/// Longest request, in bytes.
const REQUEST_MAX: usize = 8 << 10;
/// Most headers in a request.
const HEADERS_MAX: usize = 64;

/// Answers one check and closes the connection. A proxy's check is a request without a body.
pub(super) fn answer(client: &mut TcpStream, health: &Health) -> io::Result<()> {
    let response = match request(client)? {
        Some(request) => respond(&request, health),
        None => Response::text(400, "this is not an HTTP request"),
    };
    client.write_all(response.head(&response.body).as_bytes())?;
    if !response.headless {
        client.write_all(response.body.as_bytes())?;
    }
    client.flush()
}

struct Request {
    method: String,
    path: String,
}

/// Reads up to the end of the headers. `None`: it is not HTTP, or too long.
fn request(client: &mut impl io::Read) -> io::Result<Option<Request>> {
    let mut text = Vec::new();
    let mut block = [0; 1024];
    // A client that sends a byte now and then must not block this thread.
    let begun = Instant::now();
    while begun.elapsed() < CLIENT_PATIENCE {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut parsed = httparse::Request::new(&mut headers);
        match parsed.parse(&text) {
            Ok(httparse::Status::Complete(_)) => {
                let path = parsed.path.unwrap_or("/");
                return Ok(Some(Request {
                    method: parsed.method.unwrap_or("").to_owned(),
                    path: path.split(['?', '#']).next().unwrap_or("/").to_owned(),
                }));
            }
            Ok(httparse::Status::Partial) if text.len() < REQUEST_MAX => {}
            _ => return Ok(None),
        }
        let read = client.read(&mut block)?;
        if read == 0 {
            return Ok(None);
        }
        text.extend_from_slice(&block[..read]);
    }
    Ok(None)
}

/// Parses what may be a request, for the fuzz target. Returns its path if it is one.
pub(crate) fn path_of(mut text: &[u8]) -> Option<String> {
    request(&mut text).ok()?.map(|request| request.path)
}

struct Response {
    status: u16,
    kind: &'static str,
    body: String,
    headless: bool,
}

impl Response {
    fn text(status: u16, body: &str) -> Self {
        Self {
            status,
            kind: "text/plain; charset=utf-8",
            body: format!("{body}\n"),
            headless: false,
        }
    }

    fn head(&self, body: &str) -> String {
        let words = match self.status {
            200 => "OK",
            400 => "Bad Request",
            404 => "Not Found",
            405 => "Method Not Allowed",
            _ => "Service Unavailable",
        };
        format!(
            "HTTP/1.1 {} {words}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n",
            self.status,
            self.kind,
            body.len()
        )
    }
}

fn respond(request: &Request, health: &Health) -> Response {
    // HAProxy uses OPTIONS by default.
    if !matches!(request.method.as_str(), "GET" | "HEAD" | "OPTIONS") {
        return Response::text(405, "ask with GET, HEAD or OPTIONS");
    }
    let verdict = &health.verdict;
    let checked = |ok: bool| {
        let word = if ok { "up" } else { "down" };
        Response::text(
            if ok { 200 } else { 503 },
            &format!("{word}: {}: {}", verdict.state, verdict.reason),
        )
    };
    let mut response = match request.path.as_str() {
        "/" | "/write" => checked(verdict.writes),
        "/read" => checked(verdict.reads),
        // For use beside agent checks, which report draining.
        "/alive" => checked(verdict.reads || verdict.drains),
        "/status" => Response {
            kind: "application/json",
            body: serde_json::to_string(health).unwrap_or_default() + "\n",
            ..Response::text(200, "")
        },
        _ => Response::text(404, "there are /, /write, /read, /alive and /status"),
    };
    response.headless = request.method == "HEAD";
    response
}

#[cfg(test)]
mod tests {
    use super::super::judge::Verdict;
    use super::*;

    fn ask(method: &str, path: &str, verdict: Verdict) -> (u16, String) {
        let health = Health {
            verdict,
            node: "root@n1:3306".to_owned(),
            age_seconds: 0.5,
        };
        let request = Request {
            method: method.to_owned(),
            path: path.to_owned(),
        };
        let response = respond(&request, &health);
        (response.status, response.body)
    }

    #[test]
    fn paths_and_methods() {
        let down = Verdict::down("donor", "it gives a copy");
        let read_only = Verdict {
            reads: true,
            ..Verdict::down("read_only", "it is read-only")
        };
        assert_eq!(
            ask("OPTIONS", "/", down.clone()),
            (503, "down: donor: it gives a copy\n".to_owned())
        );
        assert_eq!(ask("GET", "/read", read_only.clone()).0, 200);
        assert_eq!(ask("GET", "/write", read_only.clone()).0, 503);
        let (status, body) = ask("GET", "/status", read_only);
        assert_eq!(status, 200);
        assert!(
            body.contains(r#""state":"read_only""#) && body.contains(r#""node":"root@n1:3306""#),
            "{body}"
        );
        let draining = Verdict {
            drains: true,
            ..down.clone()
        };
        assert_eq!(ask("GET", "/alive", draining.clone()).0, 200);
        assert_eq!(ask("GET", "/", draining).0, 503);
        assert_eq!(ask("GET", "/alive", down.clone()).0, 503);
        assert_eq!(ask("GET", "/else", down.clone()).0, 404);
        assert_eq!(ask("POST", "/", down).0, 405);
    }
}
