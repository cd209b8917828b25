//! The check of clients' credentials.

use burn::server::{AuthorizationRequest, PeerAuthorizer, TokenAuthorizer};
use kernels_runtime::__serving::token;

/// The length of the shortest token that a server accepts, in bytes.
pub(super) const LEAST: usize = 16;

/// Returns `true` if a token would be read as a token with a connection's number.
pub(super) fn is_ambiguous(token: &str) -> bool {
    self::token(token.as_bytes()).len() != token.len()
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

/// Returns a token of 128 random bits, in hexadecimal digits.
pub(super) fn random_token() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system has random numbers");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ() {
        let token = random_token();
        assert_ne!(token, random_token());
        assert!(token.len() >= LEAST && !is_ambiguous(&token), "{token}");
    }

    #[test]
    fn a_token_that_ends_like_a_credential_is_ambiguous() {
        assert!(is_ambiguous("secret\x000123456789abcdef"));
        assert!(!is_ambiguous("secret"));
    }
}
