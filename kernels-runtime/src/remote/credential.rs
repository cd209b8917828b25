//! The credentials of clients, and the check of them.
//!
//! A client of this crate presents the token, a zero byte and a unique number. Burn keeps one session for each server
//! and credential. With the number, every [`connect`](super::connect) has its own sessions, and a new one after the old
//! one was lost. Plain clients of Burn present only the token.

use burn::server::{AuthorizationRequest, PeerAuthorizer, TokenAuthorizer};

/// The length of the zero byte and the number, in hexadecimal digits.
const SUFFIX: usize = 1 + 16;

/// The length of the shortest token that a server accepts, in bytes.
pub(super) const LEAST: usize = 16;

/// Returns the credential of one connection.
pub(super) fn credential(token: &[u8], connection: u64) -> Vec<u8> {
    let mut credential = token.to_vec();
    credential.push(0);
    credential.extend(format!("{connection:016x}").as_bytes());
    credential
}

/// Returns the token of a credential.
fn token(credential: &[u8]) -> &[u8] {
    match credential.len().checked_sub(SUFFIX) {
        Some(end) if credential[end] == 0 => &credential[..end],
        _ => credential,
    }
}

/// Returns `true` if a token would be read as a token with a number.
pub(super) fn is_ambiguous(token: &str) -> bool {
    self::token(token.as_bytes()).len() != token.len()
}

/// Checks a credential, for [fuzzing](super::fuzz).
#[cfg(feature = "fuzz")]
pub(super) fn check(given: &[u8], connection: u64) {
    assert_eq!(token(&credential(given, connection)), given);
}

/// An authorizer that opens the sessions of clients with the token.
#[derive(Debug)]
pub(super) struct Token(pub(super) TokenAuthorizer);

impl PeerAuthorizer for Token {
    fn authorize(&self, request: AuthorizationRequest<'_>) -> Result<(), String> {
        // The comparison takes constant time there.
        self.0.authorize(AuthorizationRequest {
            client: request.client,
            device_index: request.device_index,
            credential: &token(request.credential.as_bytes()).into(),
        })
    }
}

/// Returns a unique number, for a connection or a session.
pub(crate) fn unique() -> u64 {
    let mut bytes = [0; 8];
    random(&mut bytes);
    u64::from_le_bytes(bytes)
}

/// Returns a token of 128 random bits, in hexadecimal digits.
pub(super) fn random_token() -> String {
    let mut bytes = [0; 16];
    random(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system has random numbers");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_of_a_credential_is_found() {
        assert_eq!(token(&credential(b"secret", 7)), b"secret");
        assert_eq!(token(&credential(b"", u64::MAX)), b"");
        assert_eq!(token(b"secret"), b"secret");
        assert_eq!(
            token(b"a longer token without a number"),
            b"a longer token without a number"
        );
        assert_ne!(random_token(), random_token());
    }
}
