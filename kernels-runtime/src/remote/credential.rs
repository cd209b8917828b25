//! What a client presents, and who is let in.
//!
//! A client of ours presents the token, a zero byte and a number of its own: Burn keeps one session
//! for each server and credential, so every [`connect`](super::connect) has sessions of its own,
//! and a new one after the old one was lost. Plain clients of Burn present the token alone.

use burn::server::{AuthorizationRequest, PeerAuthorizer, TokenAuthorizer};

/// The zero and the number, in hexadecimal digits.
const SUFFIX: usize = 1 + 16;

/// The bytes of the shortest token that a server takes.
pub(super) const LEAST: usize = 16;

/// The credential of one connection.
pub(super) fn credential(token: &[u8], connection: u64) -> Vec<u8> {
    let mut credential = token.to_vec();
    credential.push(0);
    credential.extend(format!("{connection:016x}").as_bytes());
    credential
}

/// The token of a credential.
fn token(credential: &[u8]) -> &[u8] {
    match credential.len().checked_sub(SUFFIX) {
        Some(end) if credential[end] == 0 => &credential[..end],
        _ => credential,
    }
}

/// Whether a token would be taken for one with a number.
pub(super) fn is_ambiguous(token: &str) -> bool {
    self::token(token.as_bytes()).len() != token.len()
}

/// For [fuzzing](super::fuzz).
#[cfg(feature = "fuzz")]
pub(super) fn check(given: &[u8], connection: u64) {
    assert_eq!(token(&credential(given, connection)), given);
}

/// Opens the sessions of clients that present the token.
#[derive(Debug)]
pub(super) struct Token(pub(super) TokenAuthorizer);

impl PeerAuthorizer for Token {
    fn authorize(&self, request: AuthorizationRequest<'_>) -> Result<(), String> {
        // Compared in constant time there.
        self.0.authorize(AuthorizationRequest {
            client: request.client,
            device_index: request.device_index,
            credential: &token(request.credential.as_bytes()).into(),
        })
    }
}

/// A number that no other has: a connection's or a session's.
pub(super) fn unique() -> u64 {
    let mut bytes = [0; 8];
    random(&mut bytes);
    u64::from_le_bytes(bytes)
}

/// A token of 128 random bits, in hexadecimal digits.
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
