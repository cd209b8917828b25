//! The places of remote devices. Connections enter them and decisions read them.

use super::Place;
use burn::backend::DeviceId;
use std::sync::{PoisonError, RwLock};

/// The known facts about a remote device.
#[derive(Clone)]
struct Entered {
    place: Place,
    /// Its name, with the versions that its server declares.
    name: String,
}

/// The places by the index of Burn's device ids, which count up from 0.
static PLACES: RwLock<Vec<Option<Entered>>> = RwLock::new(Vec::new());

/// The number of Burn's remote backend in the upper byte of a device id's type.
const REMOTE: u16 = 10;

/// Returns the index of a remote device, or `None` for a device of this process.
pub(crate) fn index(id: DeviceId) -> Option<usize> {
    (id.type_id >> 8 == REMOTE).then_some(usize::from(id.index_id))
}

/// Enters the place of a remote device's tensors, and the device's name.
pub(crate) fn enter(index: usize, place: Place, name: String) {
    let mut places = PLACES.write().unwrap_or_else(PoisonError::into_inner);
    if places.len() <= index {
        places.resize(index + 1, None);
    }
    places[index] = Some(Entered { place, name });
}

/// Returns the place of a device's tensors. Returns `None` for devices of this process and for remote devices that were
/// not entered.
pub(super) fn place(id: DeviceId) -> Option<Place> {
    let places = PLACES.read().unwrap_or_else(PoisonError::into_inner);
    let entered = places.get(index(id)?)?.as_ref();
    entered.map(|entered| entered.place)
}

/// Returns the name of a device under the conditions of [`place`].
pub(super) fn name(id: DeviceId) -> Option<String> {
    let places = PLACES.read().unwrap_or_else(PoisonError::into_inner);
    let entered = places.get(index(id)?)?.as_ref();
    entered.map(|entered| entered.name.clone())
}
