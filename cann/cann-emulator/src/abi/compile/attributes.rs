//! Attributes of operators by name.

use std::collections::BTreeMap;
use std::ffi::c_char;
use std::sync::{Arc, Mutex, PoisonError};

use cann_sys::compile::*;
use cann_sys::errors::*;

use super::{array, function, text};
use crate::abi::exports;
use crate::error::{Outcome, ensure, fail, status};
use crate::object::{self, Object};

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Bool(bool),
    Int(i64),
    Float(f32),
    Text(String),
    Dtype(aclDataType),
    Bools(Vec<u8>),
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    Texts(Vec<String>),
    Lists(Vec<Vec<i64>>),
}

/// The attributes of a call. A second value of a name replaces the first.
pub(crate) type Attributes = Mutex<BTreeMap<String, Value>>;

pub(super) fn attributes(handle: *const aclopAttr) -> Outcome<Arc<Attributes>> {
    match object::get(handle as usize) {
        Some(Object::Attributes(found)) => Ok(found),
        _ => fail!(ACL_ERROR_INVALID_PARAM; "{handle:p} are not attributes, or were destroyed"),
    }
}

/// Sets an attribute.
///
/// # Safety
///
/// `name` must be NULL or a C string.
unsafe fn set(handle: *const aclopAttr, name: *const c_char, value: Value) -> Outcome<()> {
    let found = attributes(handle)?;
    // SAFETY: the caller guarantees it.
    let name = unsafe { text("the name of the attribute", name) }?;
    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
    found.insert(name, value);
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclopCreateAttr() -> *mut aclopAttr {
    object::insert(Object::Attributes(Arc::default())) as *mut aclopAttr
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclopDestroyAttr(handle: *const aclopAttr) {
    status("aclopDestroyAttr", || {
        attributes(handle)?;
        object::remove(handle as usize);
        Ok(())
    });
}

/// Exports functions that set a value. `$made` may read the values of the caller.
macro_rules! setters {
    ($($name:ident($($argument:ident: $type:ty),*): $made:expr;)*) => {$(
        function!($name(handle: *mut aclopAttr, name: *const c_char, $($argument: $type),*) {
            // SAFETY: the caller guarantees the name, and as many values as their count says.
            unsafe { set(handle, name, $made) }
        });
    )*};
}

setters! {
    aclopSetAttrBool(value: u8): Value::Bool(value != 0);
    aclopSetAttrInt(value: i64): Value::Int(value);
    aclopSetAttrFloat(value: f32): Value::Float(value);
    aclopSetAttrString(value: *const c_char): Value::Text(text("the value", value)?);
    aclopSetAttrDataType(value: aclDataType): Value::Dtype(value);
    aclopSetAttrListBool(count: i32, values: *const u8): Value::Bools(array("the list", values, count)?);
    aclopSetAttrListInt(count: i32, values: *const i64): Value::Ints(array("the list", values, count)?);
    aclopSetAttrListFloat(count: i32, values: *const f32): Value::Floats(array("the list", values, count)?);
    aclopSetAttrListString(count: i32, values: *mut *const c_char): Value::Texts(texts(values, count)?);
    aclopSetAttrListListInt(lists: i32, counts: *const i32, values: *const *const i64):
        Value::Lists(lists_of(lists, counts, values)?);
}

/// Copies texts.
///
/// # Safety
///
/// `values` must be NULL or valid for reads of `count` C strings.
unsafe fn texts(values: *mut *const c_char, count: i32) -> Outcome<Vec<String>> {
    // SAFETY: the caller guarantees it.
    let values = unsafe { array("the list", values.cast_const(), count) }?;
    // SAFETY: as above.
    let copied = values
        .into_iter()
        .map(|value| unsafe { text("a text", value) });
    copied.collect()
}

/// Copies lists of integers.
///
/// # Safety
///
/// `counts` and `values` must be NULL or valid for reads of `lists` values, and each list for as many as its count.
unsafe fn lists_of(
    lists: i32,
    counts: *const i32,
    values: *const *const i64,
) -> Outcome<Vec<Vec<i64>>> {
    // SAFETY: the caller guarantees it.
    let counts = unsafe { array("the counts", counts, lists) }?;
    // SAFETY: as above.
    let values = unsafe { array("the lists", values, lists) }?;
    ensure!(counts.iter().all(|count| *count >= 0), ACL_ERROR_INVALID_PARAM;
        "the counts {counts:?} of lists");
    let each = counts.into_iter().zip(values);
    // SAFETY: as above.
    each.map(|(count, list)| unsafe { array("a list", list, count) })
        .collect()
}

exports!(compile: aclopCreateAttr, aclopDestroyAttr);
