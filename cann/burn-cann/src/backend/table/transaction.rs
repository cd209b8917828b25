//! Reads of several tensors at once.

use super::prelude::*;

operations! {
    TransactionOps, "transaction";

    composed: tr_execute;
}
