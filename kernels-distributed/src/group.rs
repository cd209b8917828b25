//! The group: its calls, with their checks.

use crate::element::{Carried, Values};
use crate::request::{Answer, Call, Engine, Reply, Request, total};
use crate::{Element, Error, ErrorKind, Summed, threads};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A rank's place among ranks that compute together.
///
/// All ranks make the same calls in the same order. A call with another name, length or type on some rank is an error
/// on every rank. The group ends when its last clone is dropped. Ranks that go on get an error.
#[derive(Clone)]
pub struct Group {
    inner: Arc<Inner>,
}

struct Inner {
    rank: usize,
    names: Vec<String>,
    engine: Box<dyn Engine>,
    sent: AtomicU64,
}

/// A sum that was started. Dropping it does not stop it.
#[must_use = "the sum is returned by `wait`"]
pub struct Pending {
    answer: Answer,
}

impl Group {
    /// Returns the group of one rank, which needs nothing installed.
    pub fn alone() -> Self {
        Self::of_threads(1).remove(0)
    }

    /// Returns the ranks of a group inside this process, one for each thread. Sums are in the order of ranks.
    ///
    /// # Panics
    ///
    /// If `size` is 0.
    pub fn of_threads(size: usize) -> Vec<Self> {
        assert!(size > 0, "a group has at least one rank");
        let names: Vec<_> = (0..size).map(|rank| format!("rank {rank}")).collect();
        let ranks = threads::ranks(names.clone()).into_iter().enumerate();
        ranks
            .map(|(rank, engine)| Self::new(rank, names.clone(), Box::new(engine)))
            .collect()
    }

    pub(crate) fn new(rank: usize, names: Vec<String>, engine: Box<dyn Engine>) -> Self {
        let inner = Inner {
            rank,
            names,
            engine,
            sent: AtomicU64::new(0),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Returns the number of this rank, from 0.
    pub fn rank(&self) -> usize {
        self.inner.rank
    }

    /// Returns the number of ranks.
    pub fn size(&self) -> usize {
        self.inner.names.len()
    }

    /// Returns a rank's name for messages, such as `rank 3 on host b`. Ranks of threads have no host.
    pub fn name_of(&self, rank: usize) -> String {
        match self.inner.names.get(rank) {
            Some(name) => name.clone(),
            None => format!(
                "rank {rank}, which the group of {} ranks lacks",
                self.size()
            ),
        }
    }

    /// Replaces the values by their sums over all ranks. All ranks give the same number of values.
    ///
    /// # Errors
    ///
    /// If a rank is lost or calls something else.
    pub fn all_reduce<T: Summed>(&self, values: &mut [T]) -> Result<(), Error> {
        if self.size() == 1 {
            return self.keep(values.len());
        }
        let reply = self.call(Call::AllReduce, values.to_vec(), Vec::new())?;
        values.copy_from_slice(&T::unwrap(reply.values));
        Ok(())
    }

    /// Starts the sum of values over all ranks, and returns while it goes on. Several sums may be started; every rank
    /// starts them in the same order.
    pub fn start_all_reduce(&self, values: Vec<f32>) -> Pending {
        let answer = self.start(Call::AllReduce, values, Vec::new());
        Pending { answer }
    }

    /// Returns this rank's part of the sums over all ranks: `counts` has the number of values for each rank, whose
    /// parts lie one after the other. All ranks give the same counts. The sum is in the order of ranks.
    ///
    /// # Errors
    ///
    /// If the counts don't add up to the number of values, if a rank is lost or calls something else.
    pub fn reduce_scatter(&self, values: &[f32], counts: &[usize]) -> Result<Vec<f32>, Error> {
        self.check_counts("reduce_scatter", counts)?;
        self.check_total("reduce_scatter", values.len(), counts)?;
        let reply = self.call(Call::ReduceScatter, values.to_vec(), counts.to_vec())?;
        Ok(f32::unwrap(reply.values))
    }

    /// Returns the values of all ranks, in the order of ranks. `counts` has the number of values of each rank and is
    /// the same on all ranks.
    ///
    /// # Errors
    ///
    /// If this rank's count isn't the number of its values, if a rank is lost or calls something else.
    pub fn all_gather<T: Element>(&self, values: &[T], counts: &[usize]) -> Result<Vec<T>, Error> {
        self.check_counts("all_gather", counts)?;
        let own = counts[self.rank()];
        if own != values.len() {
            let problem = format!(
                "all_gather of {} values, of which the counts give this rank {own}",
                values.len()
            );
            return Err(self.argument(problem));
        }
        let reply = self.call(Call::AllGather, values.to_vec(), counts.to_vec())?;
        Ok(T::unwrap(reply.values))
    }

    /// Sends each rank its part of the values, and returns the parts that all ranks sent to this one, in the order of
    /// ranks, with their lengths. `counts` has the number of values for each rank; each rank has counts of its own.
    ///
    /// # Errors
    ///
    /// If the counts don't add up to the number of values, if a rank is lost or calls something else.
    pub fn all_to_all_v<T: Element>(
        &self,
        values: &[T],
        counts: &[usize],
    ) -> Result<(Vec<T>, Vec<usize>), Error> {
        self.check_counts("all_to_all_v", counts)?;
        self.check_total("all_to_all_v", values.len(), counts)?;
        let reply = self.call(Call::AllToAll, values.to_vec(), counts.to_vec())?;
        Ok((T::unwrap(reply.values), reply.counts))
    }

    /// Replaces the values by those of the rank `root`. All ranks give the same number of values.
    ///
    /// # Errors
    ///
    /// If the group lacks the rank `root`, if a rank is lost or calls something else.
    pub fn broadcast<T: Element>(&self, values: &mut [T], root: usize) -> Result<(), Error> {
        if root >= self.size() {
            return Err(self.argument(format!("broadcast from {}", self.name_of(root))));
        }
        if self.size() == 1 {
            return self.keep(values.len());
        }
        let reply = self.call(Call::Broadcast { root }, values.to_vec(), Vec::new())?;
        values.copy_from_slice(&T::unwrap(reply.values));
        Ok(())
    }

    /// Returns when all ranks have called it.
    ///
    /// # Errors
    ///
    /// If a rank is lost or calls something else.
    pub fn barrier(&self) -> Result<(), Error> {
        self.call(Call::Barrier, Vec::<u8>::new(), Vec::new())
            .map(drop)
    }

    /// Compares a digest between all ranks. `what` says in a few words what the digest is of, such as `data file`.
    ///
    /// # Errors
    ///
    /// If digests differ. The error is the same on all ranks, and names `what` and the ranks that differ from most, or
    /// from rank 0 if there are two halves. Also if a rank is lost or calls something else.
    pub fn agree(&self, what: &str, digest: &[u8; 32]) -> Result<(), Error> {
        self.inner
            .engine
            .agree(&kernels_io::escape(&kernels_io::shorten(what, 256)), digest)
    }

    /// Ends the group for a reason of this rank, such as a full disk. All ranks get an error that names this rank and
    /// the reason, also those that wait.
    pub fn fail(&self, reason: &str) {
        self.inner.engine.fail(&kernels_io::shorten(reason, 1024));
    }

    /// Returns the number of elements that this rank gave to the group so far. A broadcast counts on its root only.
    pub fn sent(&self) -> u64 {
        self.inner.sent.load(Ordering::Relaxed)
    }

    fn call<T: Carried>(
        &self,
        call: Call,
        values: Vec<T>,
        counts: Vec<usize>,
    ) -> Result<Reply, Error> {
        self.start(call, values, counts)()
    }

    fn start<T: Carried>(&self, call: Call, values: Vec<T>, counts: Vec<usize>) -> Answer {
        let receives = matches!(call, Call::Broadcast { root } if root != self.rank());
        if !receives {
            self.count(values.len());
        }
        let values: Values = T::wrap(values);
        if self.size() == 1 {
            // One rank receives what it sends, without a copy.
            let over = self.inner.engine.start(Request::empty(Call::Barrier));
            return Box::new(move || over().map(|_| Reply { values, counts }));
        }
        self.inner.engine.start(Request {
            call,
            values,
            counts,
        })
    }

    /// Returns at once, because the values of one rank stay as they are. A group that has ended refuses.
    fn keep(&self, len: usize) -> Result<(), Error> {
        self.count(len);
        self.barrier()
    }

    fn count(&self, len: usize) {
        self.inner.sent.fetch_add(len as u64, Ordering::Relaxed);
    }

    fn check_counts(&self, call: &str, counts: &[usize]) -> Result<(), Error> {
        match counts.len() == self.size() {
            true => Ok(()),
            false => Err(self.argument(format!(
                "{call} with {} counts for {} ranks",
                counts.len(),
                self.size()
            ))),
        }
    }

    fn check_total(&self, call: &str, len: usize, counts: &[usize]) -> Result<(), Error> {
        match total(counts) == len {
            true => Ok(()),
            false => {
                Err(self.argument(format!("{call} of {len} values with counts of another sum")))
            }
        }
    }

    fn argument(&self, problem: String) -> Error {
        Error::new(
            ErrorKind::Argument,
            format!("{}: {problem}", self.name_of(self.rank())),
        )
    }
}

impl Pending {
    /// Waits for the sums.
    ///
    /// # Errors
    ///
    /// If a rank is lost or calls something else.
    pub fn wait(self) -> Result<Vec<f32>, Error> {
        Ok(f32::unwrap((self.answer)()?.values))
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group(rank {} of {})", self.rank(), self.size())
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pending")
    }
}
