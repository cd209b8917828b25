//! The places of remote devices. Connections enter them and decisions read them.

use super::Place;
use burn::backend::DeviceId;
use std::sync::{PoisonError, RwLock};

/// The places by the index of Burn's device ids, which count up from 0.
static PLACES: RwLock<Vec<Option<Place>>> = RwLock::new(Vec::new());

/// The number of Burn's remote backend in the upper byte of a device id's type.
const REMOTE: u16 = 10;

/// Returns the index of a remote device, or `None` for a device of this process.
pub(crate) fn index(id: DeviceId) -> Option<usize> {
    (id.type_id >> 8 == REMOTE).then_some(usize::from(id.index_id))
}

/// Enters the place of a remote device's tensors.
pub(crate) fn enter(index: usize, place: Place) {
    let mut places = PLACES.write().unwrap_or_else(PoisonError::into_inner);
    if places.len() <= index {
        places.resize(index + 1, None);
    }
    places[index] = Some(place);
}

/// Returns the place of a device's tensors. Returns `None` for devices of this process and for remote devices that were
/// not entered.
pub(super) fn place(id: DeviceId) -> Option<Place> {
    let places = PLACES.read().unwrap_or_else(PoisonError::into_inner);
    *places.get(index(id)?)?
}
