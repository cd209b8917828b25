//! Requests with limits, in which the token goes to the hub alone.

use crate::error::Error;
use crate::repository::Commit;
use crate::settings::Token;
use serde::de::DeserializeOwned;
use std::io::Read;
use std::time::Duration;
use ureq::http::{Response, Uri};
use ureq::{Agent, Body};

/// The most redirects of a request.
const MOST_REDIRECTS: usize = 5;

/// The fewest bytes of a second, over a whole answer.
const SLOWEST: u64 = 16 << 10;

/// A client of one hub.
#[derive(Debug)]
pub(super) struct Client {
    agent: Agent,
    /// `https://host`, without a path.
    origin: String,
    endpoint: String,
    token: Option<Token>,
    patience: Duration,
}

/// An answer whose body is to be read.
pub(super) struct Answer {
    response: Response<Body>,
    /// The request, as messages show it.
    what: String,
}

impl Client {
    pub(super) fn new(
        endpoint: &str,
        token: Option<Token>,
        patience: Duration,
    ) -> Result<Self, Error> {
        // What is before an `@` can be a password.
        let shown = match endpoint.contains('@') {
            true => "…",
            false => endpoint,
        };
        let wrong = || {
            Error::Setting(format!(
                "HF_ENDPOINT: `{shown}` is not an address such as https://huggingface.co, without user and password"
            ))
        };
        let uri: Uri = endpoint.parse().map_err(|_| wrong())?;
        let origin = origin(&uri).ok_or_else(wrong)?;
        if uri.query().is_some() || endpoint.contains('@') {
            return Err(wrong());
        }
        let is_local = matches!(uri.host(), Some("localhost" | "127.0.0.1" | "[::1]"));
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("burn-kernels/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(patience))
            .timeout_recv_response(Some(patience))
            .timeout_per_read(Some(patience));
        let config = match is_local {
            true => config.proxy(None),
            false => config,
        };
        Ok(Self {
            agent: config.build().into(),
            origin,
            endpoint: endpoint.into(),
            token,
            patience,
        })
    }

    /// Requests a path of the hub, and follows redirects. The body may have `most` bytes.
    pub(super) fn get(&self, path: &str, most: u64) -> Result<Answer, Error> {
        let mut address = format!("{}{path}", self.endpoint);
        // The query of a redirect can be a key to the file.
        let what = format!("GET {}", address.split('?').next().unwrap_or_default());
        let failed = |problem: String| Error::Hub {
            what: what.clone(),
            problem,
        };
        let mut at_hub = true;
        for _ in 0..=MOST_REDIRECTS {
            let mut request = self.agent.get(&address);
            if let Some(token) = self.token.as_ref().filter(|_| at_hub) {
                request = request.header("authorization", format!("Bearer {}", token.text()));
            }
            let whole = self.patience + Duration::from_secs(most / SLOWEST);
            let request = request.config().timeout_recv_body(Some(whole)).build();
            let response = request.call().map_err(|error| failed(self.cause(&error)))?;
            let status = response.status().as_u16();
            if !matches!(status, 301 | 302 | 303 | 307 | 308) {
                return match refusal(status) {
                    None => Ok(Answer { response, what }),
                    Some(problem) => Err(failed(problem)),
                };
            }
            let location = response
                .headers()
                .get("location")
                .and_then(|value| value.to_str().ok());
            let next = location.and_then(|location| follow(&address, location));
            let (next, next_origin) = next
                .ok_or_else(|| failed("the hub sends to an address that can't be read".into()))?;
            if address.starts_with("https:") && !next.starts_with("https:") {
                return Err(failed(
                    "the hub sends to an address without encryption".into(),
                ));
            }
            // Once elsewhere, a token never follows, even back.
            at_hub &= next_origin == self.origin;
            address = next;
        }
        Err(failed(format!(
            "the hub sends elsewhere more than {MOST_REDIRECTS} times"
        )))
    }

    /// Requests a path of the hub, whose answer is JSON.
    pub(super) fn json<T: DeserializeOwned>(&self, path: &str, most: u64) -> Result<T, Error> {
        let answer = self.get(path, most)?;
        answer.json(most)
    }

    /// Reads a commit that the hub sent.
    pub(super) fn commit(&self, text: &str) -> Result<Commit, Error> {
        Commit::parse(text).map_err(|error| Error::Hub {
            what: self.endpoint.clone(),
            problem: error.to_string(),
        })
    }

    fn cause(&self, error: &ureq::Error) -> String {
        match error {
            ureq::Error::Timeout(_) => format!("the hub did not answer within {:?}", self.patience),
            ureq::Error::HostNotFound => "there is no such host".into(),
            ureq::Error::Io(error) => format!("the hub can't be reached: {error}"),
            other => format!("the hub can't be asked: {other}"),
        }
    }
}

impl Answer {
    /// Returns the address of the next part of a list, a path of the hub. `None` if this part is the last.
    ///
    /// # Errors
    /// Returns an error if the next part is not one of this hub, or can't be read.
    pub(super) fn next(&self, client: &Client) -> Result<Option<String>, Error> {
        let failed = |problem: String| Error::Hub {
            what: self.what.clone(),
            problem,
        };
        for link in self.response.headers().get_all("link") {
            let Ok(link) = link.to_str() else {
                return Err(failed("the hub sends a link that can't be read".into()));
            };
            let mut links = link.split(',');
            let Some(next) = links.find(|link| link.contains("rel=\"next\"")) else {
                continue;
            };
            let address = next.trim().strip_prefix('<').unwrap_or_default();
            let address = address.split('>').next().unwrap_or_default();
            let path = address.strip_prefix(&client.endpoint).unwrap_or(address);
            if !path.starts_with("/api/") {
                // The query of an address elsewhere can be a key.
                let shown = address.split('?').next().unwrap_or_default();
                return Err(failed(format!(
                    "the next part of the list is at `{}`, which is not at this hub",
                    crate::metadata::short(shown)
                )));
            }
            return Ok(Some(path.to_owned()));
        }
        Ok(None)
    }

    /// Reads the body, of at most so many bytes, as JSON.
    pub(super) fn json<T: DeserializeOwned>(self, most: u64) -> Result<T, Error> {
        let what = self.what.clone();
        let bytes = self.bytes(most)?;
        serde_json::from_slice(&bytes).map_err(|error| Error::Hub {
            what,
            problem: format!("the answer is not what a hub sends: {error}"),
        })
    }

    /// Reads the body, of at most so many bytes.
    pub(super) fn bytes(self, most: u64) -> Result<Vec<u8>, Error> {
        let Self { response, what } = self;
        let failed = |problem: String| Error::Hub {
            what: what.clone(),
            problem,
        };
        let body = response.into_body();
        let promised = body.content_length();
        if promised.is_some_and(|promised| promised > most) {
            return Err(failed(format!("the answer has more than {most} bytes")));
        }
        let mut bytes = Vec::new();
        let read = body.into_reader().take(most + 1).read_to_end(&mut bytes);
        let count = bytes.len() as u64;
        if let Err(error) = read {
            let slow = error.kind() == std::io::ErrorKind::TimedOut
                || error
                    .get_ref()
                    .and_then(|inner| inner.downcast_ref())
                    .is_some_and(|inner| matches!(inner, ureq::Error::Timeout(_)));
            return Err(failed(match slow {
                true => format!("the answer came too slowly; {count} bytes were there"),
                false => format!("the answer was cut off after {count} bytes: {error}"),
            }));
        }
        match (
            count > most,
            promised.is_some_and(|promised| promised != count),
        ) {
            (true, _) => Err(failed(format!("the answer has more than {most} bytes"))),
            (_, true) => Err(failed(format!(
                "the answer was cut off after {count} bytes"
            ))),
            _ => Ok(bytes),
        }
    }
}

/// Returns what a status means, unless it is that of an answer.
fn refusal(status: u16) -> Option<String> {
    Some(match status {
        200 => return None,
        401 | 403 => "the hub refuses: the repository does not exist, or needs a token \
                      in HF_TOKEN of somebody who may read it"
            .into(),
        404 => "the hub does not have this; check repository and revision".into(),
        429 => "the hub has had too many requests; wait, or set HF_TOKEN".into(),
        500.. => format!("the hub failed with status {status}; try again later"),
        other => format!("the hub answered with status {other}"),
    })
}

/// Returns `https://host:port` of an address, in lower case.
fn origin(uri: &Uri) -> Option<String> {
    let scheme = uri
        .scheme_str()
        .filter(|scheme| matches!(*scheme, "http" | "https"))?;
    let authority = uri.authority()?.as_str();
    Some(format!("{scheme}://{authority}").to_ascii_lowercase())
}

/// Returns the address that a redirect leads to, with its origin.
fn follow(address: &str, location: &str) -> Option<(String, String)> {
    let next = match location.starts_with('/') && !location.starts_with("//") {
        true => format!("{}{location}", origin(&address.parse().ok()?)?),
        false => location.to_owned(),
    };
    let origin = origin(&next.parse().ok()?)?;
    (!next.contains('@')).then_some((next, origin))
}
