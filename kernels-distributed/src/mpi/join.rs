//! The start of MPI: the ranks learn each other's hosts and the way to rank 0.

use super::worker::{Job, Worker};
use super::{Mpi, gone};
use crate::control::{Control, Membership, Token, Way, listen, new_token};
use crate::{Error, ErrorKind, Group, Launch, Options};
use kernels_io::escape;
use mpi::Threading;
use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use std::mem;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};

/// Bytes of a host's name that are sent. Names of DNS have at most 253.
const HOST: usize = 256;
/// Bytes of the reason why rank 0 can't listen.
const REASON: usize = 512;

/// The names of the ranks and the control connection, which the thread of MPI sends to the caller, or an error.
type Joined = Result<(Vec<String>, Arc<Control>), Error>;

/// Joins the ranks that a launcher started.
pub(crate) fn join(launch: &Launch, options: &Options) -> Result<Group, Error> {
    let (jobs, receiver) = mpsc::channel();
    let (tell, joined) = mpsc::channel();
    let (own, options) = (launch.clone(), options.clone());
    let worker = std::thread::Builder::new().name("mpi".into());
    let worker = worker.spawn(move || run(&own, &options, receiver, &tell));
    let worker = worker.map_err(|error| start(format!("a thread for MPI can't start: {error}")))?;
    let (names, control) = joined.recv().unwrap_or_else(|_| Err(gone()))?;
    let engine = Mpi {
        jobs: Mutex::new(Some(jobs)),
        control,
        worker: Some(worker),
    };
    Ok(Group::new(launch.rank, names, Box::new(engine)))
}

fn run(launch: &Launch, options: &Options, jobs: Receiver<Job>, tell: &Sender<Joined>) {
    let (universe, world) = match initialise(launch) {
        Ok(started) => started,
        Err(error) => return drop(tell.send(Err(error))),
    };
    let names = names(&world);
    let control = match connect(launch, options, &world, &names) {
        Ok(control) => Arc::new(control),
        Err(error) => {
            // Other ranks don't reach the end of MPI either.
            mem::forget(universe);
            return drop(tell.send(Err(error)));
        }
    };
    if tell.send(Ok((names.clone(), control.clone()))).is_err() {
        return mem::forget(universe);
    }
    Worker::new(
        world,
        names,
        launch.rank,
        options.deterministic,
        control,
        jobs,
    )
    .serve();
    drop(universe);
}

fn initialise(launch: &Launch) -> Result<(Universe, SimpleCommunicator), Error> {
    let Some((universe, level)) = mpi::initialize_with_threading(Threading::Funneled) else {
        return Err(start(
            "MPI is in use in this process: a process joins its ranks once".into(),
        ));
    };
    if level < Threading::Funneled {
        mem::forget(universe);
        return Err(Error::new(
            ErrorKind::Engine,
            "this MPI does not allow threads (`MPI_THREAD_FUNNELED`)",
        ));
    }
    let world = universe.world();
    let (rank, size) = (world.rank() as usize, world.size() as usize);
    if (rank, size) != (launch.rank, launch.size) {
        mem::forget(universe);
        let Launch {
            launcher,
            rank: wanted,
            size: ranks,
            ..
        } = launch;
        return Err(start(format!(
            "{launcher} started rank {wanted} of {ranks}, but MPI sees rank {rank} of {size}: the program is built \
             with another MPI than the launcher's, or `srun` needs `--mpi=pmix` or `--mpi=pmi2`"
        )));
    }
    Ok((universe, world))
}

/// Returns the names of the ranks with their hosts.
fn names(world: &SimpleCommunicator) -> Vec<String> {
    let host = mpi::environment::processor_name().unwrap_or_default();
    let mut own = [0u8; HOST];
    let len = host.floor_char_boundary(HOST);
    own[..len].copy_from_slice(&host.as_bytes()[..len]);
    let mut all = vec![0u8; HOST * world.size() as usize];
    world.all_gather_into(&own, &mut all);
    let name = |(rank, host): (usize, &[u8])| format!("rank {rank} on host {}", text(host));
    all.chunks_exact(HOST).enumerate().map(name).collect()
}

fn text(bytes: &[u8]) -> String {
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    escape(&String::from_utf8_lossy(&bytes[..end])).into_owned()
}

/// Connects the control connection. Rank 0 listens first, and broadcasts the port and a secret over MPI, or the reason
/// why it can't listen.
fn connect(
    launch: &Launch,
    options: &Options,
    world: &SimpleCommunicator,
    names: &[String],
) -> Result<Control, Error> {
    let host = |name: &String| {
        name.split_once(" on host ")
            .map_or(String::new(), |(_, host)| host.into())
    };
    let one_host = names.iter().all(|name| host(name) == host(&names[0]));
    let listener = (launch.rank == 0).then(|| {
        let port = launch.master.as_ref().map_or(0, |(_, port)| *port);
        let listener = listen(&names[0], port, one_host && launch.master.is_none())?;
        let port = listener
            .local_addr()
            .map_err(|error| start(format!("{}: {error}", names[0])))?
            .port();
        Ok((listener, port))
    });
    let mut invitation = match &listener {
        Some(Ok((_, port))) => Invitation {
            port: *port,
            token: new_token(),
            problem: String::new(),
        }
        .to_bytes(),
        Some(Err(error)) => Invitation {
            port: 0,
            token: [0; 32],
            problem: Error::to_string(error),
        }
        .to_bytes(),
        None => [0; Invitation::BYTES],
    };
    world.process_at_rank(0).broadcast_into(&mut invitation);
    let Invitation {
        port,
        token,
        problem,
    } = Invitation::from_bytes(&invitation);
    if !problem.is_empty() {
        return Err(Error::new(ErrorKind::Connection, problem));
    }
    let way = match listener {
        Some(Ok((listener, _))) => Way::Listen(listener),
        Some(Err(error)) => return Err(error),
        None => Way::Connect(address(launch, one_host, host(&names[0])), port),
    };
    let membership = Membership {
        rank: launch.rank,
        names: names.to_vec(),
        token,
        options: options.clone(),
    };
    let control = Control::connect(membership, way)?;
    agree_on_options(&control, options).inspect_err(|_| control.leave())?;
    Ok(control)
}

/// Compares the options of the ranks. Sums in order are other calls of MPI than sums in any order, and a rank with a
/// longer timeout would be silent for too long.
fn agree_on_options(control: &Control, options: &Options) -> Result<(), Error> {
    let mut timeout = [0; 32];
    timeout[..16].copy_from_slice(&options.timeout.as_nanos().to_le_bytes());
    control.agree("option `timeout`", &timeout)?;
    let deterministic = [u8::from(options.deterministic); 32];
    control.agree("option `deterministic`", &deterministic)
}

fn address(launch: &Launch, one_host: bool, host: String) -> String {
    match &launch.master {
        Some((address, _)) => address.clone(),
        None if one_host => "127.0.0.1".into(),
        None => host,
    }
}

/// The broadcast of rank 0 over MPI: the way to its control connection, or the reason why it has none.
struct Invitation {
    port: u16,
    token: Token,
    problem: String,
}

impl Invitation {
    const BYTES: usize = 2 + 32 + REASON;

    fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..2].copy_from_slice(&self.port.to_le_bytes());
        bytes[2..34].copy_from_slice(&self.token);
        let len = self.problem.floor_char_boundary(REASON);
        bytes[34..34 + len].copy_from_slice(&self.problem.as_bytes()[..len]);
        bytes
    }

    fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let mut token = [0; 32];
        token.copy_from_slice(&bytes[2..34]);
        Self {
            port: u16::from_le_bytes([bytes[0], bytes[1]]),
            token,
            problem: text(&bytes[34..]),
        }
    }
}

fn start(problem: String) -> Error {
    Error::new(ErrorKind::Start, problem)
}
