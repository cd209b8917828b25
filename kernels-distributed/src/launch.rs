//! The variables that launchers set for each rank.

use crate::{Error, ErrorKind};
use kernels_io::{escape, shorten};
use std::collections::BTreeMap;
use std::fmt;

/// The program that started the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Launcher {
    /// No launcher: the process is alone.
    Alone,
    /// `mpirun` of OpenMPI.
    OpenMpi,
    /// `mpirun` of MPICH, or Slurm's `srun` with PMI.
    Mpich,
    /// Slurm's `srun`.
    Srun,
    /// PyTorch's `torchrun`.
    Torchrun,
}

/// A rank's place, as its launcher's variables have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The launcher.
    pub launcher: Launcher,
    /// The number of this rank, from 0.
    pub rank: usize,
    /// The number of ranks.
    pub size: usize,
    /// The number of this rank among those of its host, where the launcher says it.
    pub local_rank: Option<usize>,
    /// Host and port of rank 0 (`MASTER_ADDR`, `MASTER_PORT`).
    pub master: Option<(String, u16)>,
}

/// The names of a launcher's variables.
struct Names {
    launcher: Launcher,
    rank: &'static str,
    size: &'static str,
    local_rank: &'static str,
}

const OPEN_MPI: Names = Names {
    launcher: Launcher::OpenMpi,
    rank: "OMPI_COMM_WORLD_RANK",
    size: "OMPI_COMM_WORLD_SIZE",
    local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
};
const MPICH: Names = Names {
    launcher: Launcher::Mpich,
    rank: "PMI_RANK",
    size: "PMI_SIZE",
    local_rank: "MPI_LOCALRANKID",
};
const SRUN: Names = Names {
    launcher: Launcher::Srun,
    rank: "SLURM_PROCID",
    // Of the step. A job's SLURM_NTASKS is also set for its script, which is one process.
    size: "SLURM_STEP_NUM_TASKS",
    local_rank: "SLURM_LOCALID",
};
const TORCHRUN: Names = Names {
    launcher: Launcher::Torchrun,
    rank: "RANK",
    size: "WORLD_SIZE",
    local_rank: "LOCAL_RANK",
};

/// Set by `torchrun` alone, in contrast to the names above, which scripts set as well.
const TORCHRUN_MARK: &str = "TORCHELASTIC_RUN_ID";
const MASTER: [&str; 2] = ["MASTER_ADDR", "MASTER_PORT"];

/// The longest name of a host in DNS.
const LONGEST_HOST: usize = 253;

/// Variables by name.
type Variables = BTreeMap<String, String>;

impl Launch {
    /// Reads the variables of this process.
    ///
    /// # Errors
    ///
    /// As [`Launch::from_variables`].
    pub fn from_environment() -> Result<Self, Error> {
        let sets = [OPEN_MPI, MPICH, SRUN, TORCHRUN];
        let names = sets
            .iter()
            .flat_map(|names| [names.rank, names.size, names.local_rank]);
        let names = names.chain(MASTER).chain([TORCHRUN_MARK]);
        let found = names.filter_map(|name| {
            Some((
                name.into(),
                std::env::var_os(name)?.to_string_lossy().into_owned(),
            ))
        });
        Self::from_variables(&found.collect())
    }

    /// Reads a launcher's variables from a map. Without any, the process is alone.
    ///
    /// Variables of `mpirun` count before those of Slurm, which also describe a job whose script calls `mpirun`.
    /// Variables of `torchrun` count first if it started the process, and otherwise must agree with the launcher's.
    ///
    /// # Errors
    ///
    /// If a variable is not a number or one of a pair is missing, if a rank is not below the number of ranks, or if two
    /// launchers' variables contradict each other. The error names the variables.
    pub fn from_variables(variables: &Variables) -> Result<Self, Error> {
        let torchrun = Place::read(variables, &TORCHRUN)?;
        let place = match torchrun {
            Some(place) if variables.contains_key(TORCHRUN_MARK) => place,
            _ => {
                let mut found = Place::of_cluster(variables)?.into_iter().chain(torchrun);
                let Some(place) = found.next() else {
                    return Ok(Self::alone());
                };
                found.try_for_each(|other| place.check_same(&other))?;
                place
            }
        };
        let Place {
            names,
            rank,
            size,
            local_rank,
        } = place;
        let master = if size > 1 { master(variables)? } else { None };
        Ok(Self {
            launcher: names.launcher,
            rank,
            size,
            local_rank,
            master,
        })
    }

    fn alone() -> Self {
        Self {
            launcher: Launcher::Alone,
            rank: 0,
            size: 1,
            local_rank: None,
            master: None,
        }
    }
}

/// A rank's place by the variables of one launcher.
#[derive(Clone, Copy)]
struct Place {
    names: &'static Names,
    rank: usize,
    size: usize,
    local_rank: Option<usize>,
}

impl Place {
    /// Reads the variables of `mpirun`, or else those of `srun`.
    fn of_cluster(variables: &Variables) -> Result<Vec<Self>, Error> {
        let places = [
            Self::read(variables, &OPEN_MPI)?,
            Self::read(variables, &MPICH)?,
        ];
        let places: Vec<_> = places.into_iter().flatten().collect();
        // The script of a job (`sbatch`) has SLURM_PROCID too, but is not one of several tasks.
        match places.is_empty() && variables.contains_key(SRUN.size) {
            true => Ok(Self::read(variables, &SRUN)?.into_iter().collect()),
            false => Ok(places),
        }
    }

    fn read(variables: &Variables, names: &'static Names) -> Result<Option<Self>, Error> {
        let rank = number(variables, names.rank)?;
        let size = number(variables, names.size)?;
        let (rank, size) = match (rank, size) {
            (None, None) => return Ok(None),
            (Some(rank), Some(size)) => (rank, size),
            (Some(_), None) => return Err(missing(names.rank, names.size)),
            (None, Some(_)) => return Err(missing(names.size, names.rank)),
        };
        if size == 0 {
            return Err(start(format!(
                "{}=0: a group has at least one rank",
                names.size
            )));
        }
        if rank >= size {
            return Err(start(format!(
                "{}={rank} is not below {}={size}",
                names.rank, names.size
            )));
        }
        let local_rank = number(variables, names.local_rank)?;
        if let Some(local) = local_rank.filter(|local| *local >= size) {
            return Err(start(format!(
                "{}={local} is not below {}={size}",
                names.local_rank, names.size
            )));
        }
        Ok(Some(Self {
            names,
            rank,
            size,
            local_rank,
        }))
    }

    fn check_same(&self, other: &Self) -> Result<(), Error> {
        let pairs = [
            (self.names.rank, self.rank, other.names.rank, other.rank),
            (self.names.size, self.size, other.names.size, other.size),
        ];
        match pairs.into_iter().find(|(_, own, _, others)| own != others) {
            None => Ok(()),
            Some((name, own, other_name, others)) => {
                let advice = "unset those of the launcher that did not start this process";
                Err(start(format!(
                    "{name}={own} contradicts {other_name}={others}: {advice}"
                )))
            }
        }
    }
}

fn master(variables: &Variables) -> Result<Option<(String, u16)>, Error> {
    let [address, port] = MASTER;
    let (host, number) = match (variables.get(address), variables.get(port)) {
        (None, None) => return Ok(None),
        (Some(host), Some(number)) => (host, number),
        (Some(_), None) => return Err(missing(address, port)),
        (None, Some(_)) => return Err(missing(port, address)),
    };
    if host.is_empty() || host.len() > LONGEST_HOST {
        return Err(start(format!(
            "{address} has {} bytes, not 1 to {LONGEST_HOST}",
            host.len()
        )));
    }
    match number.parse::<u16>() {
        Ok(number @ 1..) => Ok(Some((host.clone(), number))),
        _ => Err(start(format!(
            "{port}=`{}` is not a port from 1 to 65535",
            shown(number)
        ))),
    }
}

fn number(variables: &Variables, name: &str) -> Result<Option<usize>, Error> {
    let Some(text) = variables.get(name) else {
        return Ok(None);
    };
    // Engines have 32 bits for a rank.
    match text.parse::<u32>() {
        Ok(number) if !text.starts_with('+') && number <= i32::MAX as u32 => {
            Ok(Some(number as usize))
        }
        _ => Err(start(format!(
            "{name}=`{}` is not a number from 0 to {}",
            shown(text),
            i32::MAX
        ))),
    }
}

fn shown(text: &str) -> String {
    escape(&shorten(text, 64)).into_owned()
}

fn missing(there: &str, missing: &str) -> Error {
    start(format!("{there} is set, but {missing} is not"))
}

fn start(problem: String) -> Error {
    Error::new(ErrorKind::Start, problem)
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Alone => "no launcher",
            Self::OpenMpi => "`mpirun` of OpenMPI",
            Self::Mpich => "`mpirun` of MPICH",
            Self::Srun => "`srun`",
            Self::Torchrun => "`torchrun`",
        })
    }
}
