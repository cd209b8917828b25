//! Calls of a group, as engines receive them, and their comparison between ranks.

use crate::element::{Values, name_of_code};
use crate::{Error, ErrorKind};

/// A collective call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Call {
    AllReduce,
    ReduceScatter,
    AllGather,
    AllToAll,
    Broadcast {
        root: usize,
    },
    Barrier,
    /// The comparison of a digest, under a name.
    Agree(String),
    /// The last call of a rank, which ends its group.
    #[cfg(feature = "mpi")]
    Leave,
}

/// A call of one rank with its values and its counts by rank.
#[derive(Debug)]
pub(crate) struct Request {
    pub call: Call,
    pub values: Values,
    pub counts: Vec<usize>,
}

/// The result of a call, with the counts received by rank where a call has them.
#[derive(Debug)]
pub(crate) struct Reply {
    pub values: Values,
    pub counts: Vec<usize>,
}

/// The result of a started call, once it is waited for.
pub(crate) type Answer = Box<dyn FnOnce() -> Result<Reply, Error> + Send>;

/// Moves the values of a group's calls.
pub(crate) trait Engine: Send + Sync {
    fn start(&self, request: Request) -> Answer;
    fn agree(&self, what: &str, digest: &[u8; 32]) -> Result<(), Error>;
    /// Ends the group for all ranks, for a reason of this rank.
    fn fail(&self, reason: &str);
}

/// The fields of a call that all ranks must have in common: the call, the type, and the length or the counts.
pub(crate) type Header = [u64; 4];

/// The header of a rank that leaves the group.
pub(crate) const LEAVE: u64 = 7;

impl Request {
    pub(crate) fn empty(call: Call) -> Self {
        let values = Values::U8(Vec::new());
        Self {
            call,
            values,
            counts: Vec::new(),
        }
    }

    pub(crate) fn header(&self) -> Header {
        let element = self.values.code();
        let len = self.values.len() as u64;
        let counts = hash(&self.counts);
        match &self.call {
            Call::AllReduce => [0, element, len, 0],
            Call::ReduceScatter => [1, element, len, counts],
            Call::AllGather => [2, element, total(&self.counts) as u64, counts],
            // Each rank has counts of its own.
            Call::AllToAll => [3, element, 0, 0],
            Call::Broadcast { root } => [4, element, len, *root as u64],
            Call::Barrier => [5, 0, 0, 0],
            Call::Agree(_) => [6, 0, 0, 0],
            #[cfg(feature = "mpi")]
            Call::Leave => [LEAVE, 0, 0, 0],
        }
    }
}

/// Returns the sum of counts, or the largest number if the sum is beyond it.
pub(crate) fn total(counts: &[usize]) -> usize {
    counts
        .iter()
        .fold(0usize, |sum, count| sum.saturating_add(*count))
}

/// FNV-1a, enough to tell the counts of a mistake from the right ones.
fn hash(counts: &[usize]) -> u64 {
    let bytes = counts
        .iter()
        .flat_map(|count| (*count as u64).to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Returns an error if the ranks' calls differ. It names the first rank that differs from rank 0, or a rank that left.
pub(crate) fn compare(headers: &[Header], names: &[String]) -> Result<(), Error> {
    let stays = headers.iter().position(|header| header[0] != LEAVE);
    let left = headers.iter().position(|header| header[0] == LEAVE);
    if let (Some(left), Some(stays)) = (left, stays) {
        return Err(left_early(&names[left], &names[stays], &headers[stays]));
    }
    let Some(other) = headers.iter().position(|header| *header != headers[0]) else {
        return Ok(());
    };
    let (mine, theirs) = (describe(&headers[0]), describe(&headers[other]));
    let problem = match mine == theirs {
        true => format!(
            "{} and {} call {mine} with other counts by rank",
            names[0], names[other]
        ),
        false => format!(
            "{} calls {theirs}, but {} calls {mine}",
            names[other], names[0]
        ),
    };
    Err(Error::new(ErrorKind::Differs, problem))
}

/// Returns the error of a rank that ended its group while another one goes on.
pub(crate) fn left_early(left: &str, stays: &str, header: &Header) -> Error {
    let call = describe(header);
    let problem = format!("{left} has ended its group, but {stays} still calls {call}");
    Error::new(ErrorKind::Lost, problem)
}

/// Returns a call in words, such as `all_reduce of 3 f32`.
fn describe(&[call, element, len, root]: &Header) -> String {
    let element = name_of_code(element);
    match call {
        0 => format!("all_reduce of {len} {element}"),
        1 => format!("reduce_scatter of {len} {element}"),
        2 => format!("all_gather of {len} {element}"),
        3 => format!("all_to_all_v of {element}"),
        4 => format!("broadcast of {len} {element} from rank {root}"),
        5 => "barrier".into(),
        6 => "agree".into(),
        LEAVE => "the end of the group".into(),
        _ => "an unknown function".into(),
    }
}
