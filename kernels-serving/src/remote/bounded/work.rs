//! One operation: the memory that it needs is reserved before, and its results are charged after.

use super::account::{Account, Charge, Exceeded, Reserved};
use super::session;
use super::size::{Need, TOO_MANY, sum};
use super::tensor::{Held, InMemory};
use std::borrow::Cow;
use std::sync::Arc;

/// The arguments of an operation, before it runs.
#[derive(Debug)]
pub(in crate::remote) struct Operands {
    operation: Cow<'static, str>,
    account: Option<Arc<Account>>,
    charges: Vec<Arc<Charge>>,
    /// The bytes of operands that may be copied to become contiguous.
    copied: usize,
}

/// A running operation.
#[derive(Debug)]
pub(in crate::remote) struct Running {
    operation: Cow<'static, str>,
    account: Option<Arc<Account>>,
    /// The charges of the operands, which are kept until the operation has run.
    charges: Vec<Arc<Charge>>,
    reserved: Vec<Reserved>,
}

/// Ends the session, as every failed operation does.
fn refuse(operation: &str, why: &Exceeded) -> ! {
    panic!("{}", refusal(operation, why))
}

fn refusal(operation: &str, why: &Exceeded) -> String {
    format!("`{operation}` asks for more memory than there is for it: {why}")
}

impl Operands {
    /// Begins a list of operands for an operation of this thread's session.
    pub(in crate::remote) fn new(operation: impl Into<Cow<'static, str>>) -> Self {
        Self {
            operation: operation.into(),
            account: session::account(),
            charges: Vec::new(),
            copied: 0,
        }
    }

    /// Looks up the account again, because the session has begun since.
    pub(super) fn of_session(&mut self) {
        self.account = session::account();
    }

    /// Returns a tensor in the form that the backend takes.
    pub(in crate::remote) fn open<T: InMemory>(&mut self, tensor: Held<T>) -> T {
        self.copied = sum([self.copied, tensor.copied()]);
        let (tensor, charge) = tensor.open();
        if let Some(charge) = charge {
            if self.account.is_none() {
                self.account = Some(charge.account());
            }
            self.charges.push(charge);
        }
        tensor
    }

    /// Reserves the memory that the operation needs.
    ///
    /// # Panics
    /// Panics if there is not enough memory.
    pub(in crate::remote) fn begin(self, need: impl Into<Need>) -> Running {
        let operation = self.operation.clone();
        self.try_begin(need.into())
            .unwrap_or_else(|why| refuse(&operation, &why))
    }

    /// Reserves memory as [`Operands::begin`] does, for operations that can return an error.
    pub(super) fn begin_or_say(self, need: Need) -> Result<Running, String> {
        let operation = self.operation.clone();
        self.try_begin(need)
            .map_err(|why| refusal(&operation, &why))
    }

    fn try_begin(self, need: Need) -> Result<Running, Exceeded> {
        let made = sum([need.made, self.copied]);
        possible(made.max(need.shown))?;
        let mut reserved = Vec::new();
        if let Some(account) = &self.account {
            account.allow_view(need.shown)?;
            reserved.push(account.reserve(made)?);
        }
        Ok(Running {
            operation: self.operation,
            account: self.account,
            charges: self.charges,
            reserved,
        })
    }
}

/// Returns an error if no allocation can have this many bytes.
fn possible(bytes: usize) -> Result<(), Exceeded> {
    match isize::try_from(bytes) {
        Ok(_) if bytes != TOO_MANY => Ok(()),
        _ => Err(Exceeded::Absurd),
    }
}

impl Running {
    /// Reserves more memory.
    ///
    /// # Panics
    /// Panics as [`Operands::begin`] does.
    pub(in crate::remote) fn also(&mut self, bytes: usize) {
        let reserved = possible(bytes).and_then(|()| match &self.account {
            Some(account) => account.reserve(bytes).map(Some),
            None => Ok(None),
        });
        match reserved {
            Ok(more) => self.reserved.extend(more),
            Err(why) => refuse(&self.operation, &why),
        }
    }

    /// Takes another operand.
    ///
    /// # Panics
    /// Panics if memory runs out.
    pub(in crate::remote) fn open<T: InMemory>(&mut self, tensor: Held<T>) -> T {
        self.also(tensor.copied());
        let (tensor, charge) = tensor.open();
        self.charges.extend(charge);
        tensor
    }

    /// Charges the results of the operation and releases its operands.
    ///
    /// # Panics
    /// Panics if the session then holds more than its limit, because the operation allocated more than it reserved.
    pub(super) fn end<I, O: Outcome<I>>(mut self, made: I) -> O {
        self.let_go();
        let outcome = O::charged(made, self.account.as_ref());
        self.finish();
        outcome
    }

    fn settle(&self) {
        let settled = self
            .account
            .as_ref()
            .map_or(Ok(()), |account| account.settle());
        if let Err(why) = settled {
            refuse(&self.operation, &why);
        }
    }

    /// Releases the operands after the operation has run. Buffers that it released may become results again, and these
    /// are charged from here on.
    pub(in crate::remote) fn let_go(&mut self) {
        self.charges.clear();
    }

    /// Ends an operation whose results were charged one by one.
    ///
    /// # Panics
    /// Panics as [`Running::end`] does.
    pub(in crate::remote) fn finish(mut self) {
        self.reserved.clear();
        self.settle();
    }

    /// Charges one result.
    pub(in crate::remote) fn charge<T: InMemory>(&self, tensor: T) -> Held<T> {
        Held::charged(tensor, self.account.as_ref())
    }
}

/// Results of a backend in the form that the session receives.
pub(super) trait Outcome<I>: Sized {
    fn charged(made: I, account: Option<&Arc<Account>>) -> Self;
}

impl<T: InMemory> Outcome<T> for Held<T> {
    fn charged(tensor: T, account: Option<&Arc<Account>>) -> Self {
        let charge = account.zip(tensor.buffer());
        let charge =
            charge.map(|(account, buffer)| Arc::new(account.charge(buffer.id, buffer.bytes)));
        Self::new(tensor, charge)
    }
}

impl<T: InMemory> Outcome<Option<T>> for Option<Held<T>> {
    fn charged(tensor: Option<T>, account: Option<&Arc<Account>>) -> Self {
        tensor.map(|tensor| Held::charged(tensor, account))
    }
}

impl<A: InMemory, B: InMemory> Outcome<(A, B)> for (Held<A>, Held<B>) {
    fn charged((a, b): (A, B), account: Option<&Arc<Account>>) -> Self {
        (Held::charged(a, account), Held::charged(b, account))
    }
}
