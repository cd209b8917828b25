//! Objects of Python that templates hold: methods of values, views of dictionaries, and cyclers.

use super::methods;
use minijinja::value::{Enumerator, Object, ObjectRepr, from_args};
use minijinja::{Error, ErrorKind, State, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A method of a value, as the filter `attr` returns it.
#[derive(Debug)]
pub(super) struct Method {
    pub(super) value: Value,
    pub(super) name: String,
}

impl Object for Method {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        methods::call(state, &self.value, &self.name, args)
    }
}

/// The keys, the values or the entries of a dictionary, as its method `name` returns them.
#[derive(Debug)]
pub(super) struct View {
    pub(super) name: &'static str,
    pub(super) items: Vec<Value>,
}

impl Object for View {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.items.clone())
    }
}

/// The values of `cycler`, one after the other.
#[derive(Debug)]
struct Cycler {
    items: Vec<Value>,
    at: AtomicUsize,
}

/// Makes a cycler.
pub(super) fn cycler(items: minijinja::value::Rest<Value>) -> Result<Value, Error> {
    match items.is_empty() {
        true => Err(Error::new(
            ErrorKind::InvalidOperation,
            "`cycler` needs at least one value",
        )),
        false => Ok(Value::from_object(Cycler {
            items: items.to_vec(),
            at: AtomicUsize::new(0),
        })),
    }
}

impl Object for Cycler {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let current = || self.items[self.at.load(Ordering::Relaxed)].clone();
        (key.as_str() == Some("current")).then(current)
    }

    fn call_method(
        self: &Arc<Self>,
        _: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        let () = from_args(args)?;
        let at = self.at.load(Ordering::Relaxed);
        match method {
            "next" => {
                self.at
                    .store((at + 1) % self.items.len(), Ordering::Relaxed);
                Ok(self.items[at].clone())
            }
            "reset" => {
                self.at.store(0, Ordering::Relaxed);
                Ok(Value::from(()))
            }
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }
}
