//! The variables of Hugging Face's programs.

use crate::error::Error;
use kernels_io::{Limit, read_text};
use std::env::var_os;
use std::fmt;
use std::path::PathBuf;

/// Where packages are kept and come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The folder of the cache.
    pub cache: PathBuf,
    /// The address of the hub, without a slash at its end.
    pub endpoint: String,
    /// Whether nothing is downloaded.
    pub offline: bool,
    /// The token of the user, if there is one.
    pub token: Option<Token>,
}

/// A token. It is never shown.
#[derive(Clone, PartialEq)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a token")
    }
}

impl Token {
    /// Takes a token.
    ///
    /// # Errors
    /// Returns an error, without the text, if the text can't be a token.
    pub fn new(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        match (1..=4096).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            true => Ok(Self(text.into())),
            false => Err(Error::Setting(
                "the token of the hub must be one word of visible ASCII characters".into(),
            )),
        }
    }

    #[cfg(feature = "hub")]
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

/// The hub.
const HUB: &str = "https://huggingface.co";

const TOKEN_FILE: Limit = Limit {
    what: "a token",
    bytes: 8 << 10,
};

impl Settings {
    /// Reads the variables that Hugging Face's programs read:
    /// * `KERNELS_CACHE`, `HF_HUB_CACHE`, `HF_HOME`, `XDG_CACHE_HOME`: the cache is the first, the second, `hub` in
    ///   the third, or `huggingface/hub` in the fourth, which is `~/.cache` without it;
    /// * `HF_ENDPOINT`: the address of the hub;
    /// * `HF_HUB_OFFLINE`: `1`, `ON`, `YES` or `TRUE` for no downloads;
    /// * `HF_TOKEN`, or the file `HF_TOKEN_PATH`, or `token` in `HF_HOME`: the token. An empty file has none.
    ///   `HF_HUB_DISABLE_IMPLICIT_TOKEN` ignores them.
    ///
    /// # Errors
    /// Returns an error if a variable is not valid, if the token's file can't be read, or if there is no home.
    pub fn from_env() -> Result<Self, Error> {
        let home = home()?;
        let cache = path("KERNELS_CACHE").or_else(|| path("HF_HUB_CACHE"));
        let endpoint = text("HF_ENDPOINT")?.unwrap_or_else(|| HUB.into());
        let token = match flag("HF_HUB_DISABLE_IMPLICIT_TOKEN")? {
            true => None,
            false => token(&home)?,
        };
        Ok(Self {
            cache: cache.unwrap_or_else(|| home.join("hub")),
            endpoint: endpoint.trim_end_matches('/').into(),
            offline: flag("HF_HUB_OFFLINE")?,
            token,
        })
    }
}

/// Returns the folder of Hugging Face's programs.
fn home() -> Result<PathBuf, Error> {
    let of_user = || {
        path("HOME")
            .or_else(|| path("USERPROFILE"))
            .map(|home| home.join(".cache"))
    };
    let home = path("HF_HOME").or_else(|| {
        let caches = path("XDG_CACHE_HOME").or_else(of_user)?;
        Some(caches.join("huggingface"))
    });
    home.ok_or_else(|| Error::Setting("there is no home to keep packages in; set HF_HOME".into()))
}

fn token(home: &std::path::Path) -> Result<Option<Token>, Error> {
    if let Some(token) = text("HF_TOKEN")? {
        return Token::new(&token).map(Some);
    }
    let file = path("HF_TOKEN_PATH").unwrap_or_else(|| home.join("token"));
    if !kernels_io::is_there(&file) {
        return Ok(None);
    }
    let text = read_text(&file, TOKEN_FILE)?;
    match text.trim().is_empty() {
        true => Ok(None),
        false => Token::new(&text).map(Some),
    }
}

/// Returns a variable that is not empty.
fn path(name: &str) -> Option<PathBuf> {
    var_os(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

fn text(name: &str) -> Result<Option<String>, Error> {
    match var_os(name).filter(|value| !value.is_empty()) {
        None => Ok(None),
        Some(value) => match value.into_string() {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(Error::Setting(format!("{name} is not UTF-8"))),
        },
    }
}

fn flag(name: &str) -> Result<bool, Error> {
    let value = text(name)?.unwrap_or_default().to_ascii_uppercase();
    Ok(matches!(value.as_str(), "1" | "ON" | "YES" | "TRUE"))
}
