//! The credentials of clients.
//!
//! A client of this crate presents the token, a zero byte and a unique number. Burn keeps one session for each server
//! and credential. With the number, every [`connect`](super::connect) has its own sessions, and a new one after the old
//! one was lost. Plain clients of Burn present only the token.

/// The length of the zero byte and the number, in hexadecimal digits.
const SUFFIX: usize = 1 + 16;

/// Returns the credential of one connection.
pub(super) fn credential(token: &[u8], connection: u64) -> Vec<u8> {
    let mut credential = token.to_vec();
    credential.push(0);
    credential.extend(format!("{connection:016x}").as_bytes());
    credential
}

/// Returns the token of a credential.
pub fn token(credential: &[u8]) -> &[u8] {
    match credential.len().checked_sub(SUFFIX) {
        Some(end) if credential[end] == 0 => &credential[..end],
        _ => credential,
    }
}

/// Checks a credential, for [fuzzing](super::fuzz).
#[cfg(feature = "fuzz")]
pub(super) fn check(given: &[u8], connection: u64) {
    assert_eq!(token(&credential(given, connection)), given);
}

/// Returns a unique number, for a connection or a session.
pub fn unique() -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("the operating system has random numbers");
    u64::from_le_bytes(bytes)
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
    }
}
