//! Size classes of blocks: eight per power of two. A freed block fits the next request of about its size, and at most
//! an eighth of a block is unused.

/// The smallest size. CANN allocates more than this for anything smaller.
const SMALLEST: usize = 512;

/// Returns the size of the block for a request of `bytes`, or `None` if no block is so large.
pub(super) fn class(bytes: usize) -> Option<usize> {
    if bytes <= SMALLEST {
        return Some(SMALLEST);
    }
    let step = (bytes.checked_next_power_of_two()? / 16).max(SMALLEST);
    bytes.checked_next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_was_asked_and_little_more() {
        let mut bytes = 1;
        while bytes < 1 << 40 {
            for near in [bytes - 1, bytes, bytes + 1, bytes + bytes / 3] {
                let class = class(near).unwrap();
                assert!(class >= near && class.is_multiple_of(32), "{near}: {class}");
                assert!(class <= (near + near / 8 + SMALLEST), "{near}: {class}");
                assert_eq!(super::class(class), Some(class), "a class is its own");
            }
            bytes *= 2;
        }
    }

    #[test]
    fn what_can_not_be_addressed_has_no_class() {
        assert_eq!(class(usize::MAX), None);
    }
}
