//! The tensors whose gradients this thread registered last.
//!
//! Burn's container of gradients can't be asked whether it has one of a tensor. A tensor that is no leaf belongs to one backward
//! pass: its own step is in the tape once, and a second pass through it is refused. All steps that take the tensor run before
//! its own step consumes the gradient. So while any of them runs, a gradient that one of them registered is there.

use super::NodeId;
use std::cell::Cell;

/// The number of tensors that a thread remembers. Steps that take one tensor run close together, or far apart on either side
/// of a layer's steps, which are fewer.
const RECENT: usize = 32;

#[derive(Clone, Copy)]
struct Recent {
    nodes: [Option<NodeId>; RECENT],
    next: usize,
}

thread_local! {
    static REGISTERED: Cell<Recent> = const {
        Cell::new(Recent {
            nodes: [None; RECENT],
            next: 0,
        })
    };
}

/// Returns whether a step on this thread has registered a gradient of a tensor, if it was remembered and is not forgotten.
pub(crate) fn is_registered(node: NodeId) -> bool {
    REGISTERED.get().nodes.contains(&Some(node))
}

/// Remembers that a gradient of a tensor was registered. The tensor must not be a leaf.
pub(crate) fn remember(node: NodeId) {
    let mut recent = REGISTERED.get();
    if recent.nodes.contains(&Some(node)) {
        return;
    }
    recent.nodes[recent.next] = Some(node);
    recent.next = (recent.next + 1) % RECENT;
    REGISTERED.set(recent);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_tensors_are_remembered_by_their_thread() {
        let nodes: Vec<_> = (0..=RECENT).map(|_| NodeId::new()).collect();
        for node in &nodes {
            assert!(!is_registered(*node));
            remember(*node);
            remember(*node);
            assert!(is_registered(*node));
        }
        assert!(!is_registered(nodes[0]));
        assert!(nodes[1..].iter().all(|node| is_registered(*node)));
        let other = std::thread::spawn(move || is_registered(nodes[1]));
        assert!(!other.join().expect("the thread returns"));
    }
}
