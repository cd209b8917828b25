//! One operation: what it needs is set aside before, what it made is charged after.

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
    /// Bytes of operands that may be copied to be contiguous.
    copied: usize,
}

/// An operation that runs.
#[derive(Debug)]
pub(in crate::remote) struct Running {
    operation: Cow<'static, str>,
    account: Option<Arc<Account>>,
    /// The operands', which are there until it has run.
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
    /// The operands of an operation of this thread's session.
    pub(in crate::remote) fn new(operation: impl Into<Cow<'static, str>>) -> Self {
        Self {
            operation: operation.into(),
            account: session::account(),
            charges: Vec::new(),
            copied: 0,
        }
    }

    /// The session has begun since.
    pub(super) fn of_session(&mut self) {
        self.account = session::account();
    }

    /// A tensor as the backend has it.
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

    /// Sets aside what the operation needs.
    ///
    /// # Panics
    /// There is not so much.
    pub(in crate::remote) fn begin(self, need: impl Into<Need>) -> Running {
        let operation = self.operation.clone();
        self.try_begin(need.into())
            .unwrap_or_else(|why| refuse(&operation, &why))
    }

    /// The same, for what has another way to fail.
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

/// Whether an allocation may have so many bytes at all.
fn possible(bytes: usize) -> Result<(), Exceeded> {
    match isize::try_from(bytes) {
        Ok(_) if bytes != TOO_MANY => Ok(()),
        _ => Err(Exceeded::Absurd),
    }
}

impl Running {
    /// Sets more aside.
    ///
    /// # Panics
    /// The same panics as [`Operands::begin`].
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
    /// There is no memory for a copy of it.
    pub(in crate::remote) fn open<T: InMemory>(&mut self, tensor: Held<T>) -> T {
        self.also(tensor.copied());
        let (tensor, charge) = tensor.open();
        self.charges.extend(charge);
        tensor
    }

    /// Charges what the operation made; what it was given is not its any more.
    ///
    /// # Panics
    /// The session holds more than it may: the operation made more than it was to.
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

    /// The operation has run: what it was given is not its any more. Buffers that it let go of may be the
    /// results' again, which are charged from here on.
    pub(in crate::remote) fn let_go(&mut self) {
        self.charges.clear();
    }

    /// The end of an operation whose results were charged one by one.
    ///
    /// # Panics
    /// The same panics as [`Running::end`].
    pub(in crate::remote) fn finish(mut self) {
        self.reserved.clear();
        self.settle();
    }

    /// Charges one result.
    pub(in crate::remote) fn charge<T: InMemory>(&self, tensor: T) -> Held<T> {
        Held::charged(tensor, self.account.as_ref())
    }
}

/// Results of a backend as the session gets them.
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
