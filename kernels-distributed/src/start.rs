//! The choice of an engine for the ranks that a launcher started.

use crate::{Error, ErrorKind, Group, Launch, Launcher, Options};

impl Group {
    /// Joins the ranks that a launcher started: `mpirun` of OpenMPI or MPICH, or `srun`, with the feature `mpi`.
    /// Without a launcher's variables, or with one rank, the group is [`Group::alone`].
    ///
    /// A process calls it once, before it starts work of its own.
    ///
    /// # Errors
    ///
    /// If an option or the variables are not valid, if options differ between the ranks, if this build has no engine
    /// for the launcher, or if the ranks can't connect. Ranks of `torchrun` are refused: MPI would make each of them a
    /// world of its own, and Gloo, NCCL and HCCL are not built in.
    pub fn from_environment(options: &Options) -> Result<Self, Error> {
        Self::from_launch(&Launch::from_environment()?, options)
    }

    fn from_launch(launch: &Launch, options: &Options) -> Result<Self, Error> {
        options.check()?;
        if launch.size == 1 {
            return Ok(Self::alone());
        }
        if launch.launcher == Launcher::Torchrun {
            return Err(Error::new(ErrorKind::Engine, torchrun(launch)));
        }
        Self::with_mpi(launch, options)
    }

    #[cfg(feature = "mpi")]
    fn with_mpi(launch: &Launch, options: &Options) -> Result<Self, Error> {
        crate::mpi::join(launch, options)
    }

    #[cfg(not(feature = "mpi"))]
    fn with_mpi(launch: &Launch, _options: &Options) -> Result<Self, Error> {
        let Launch {
            launcher,
            size,
            rank,
            ..
        } = launch;
        let problem = format!(
            "{launcher} started {size} ranks (this is rank {rank}), but this program has no engine that joins them: \
             build it with `--features mpi`"
        );
        Err(Error::new(ErrorKind::Engine, problem))
    }
}

fn torchrun(launch: &Launch) -> String {
    let Launch { size, rank, .. } = launch;
    format!(
        "`torchrun` started {size} ranks (this is rank {rank}), which MPI can't join, as each would be a world of its \
         own, and Gloo, NCCL and HCCL are not built in: start the program with `mpirun` or `srun`, or unset RANK and \
         WORLD_SIZE if they are of another program"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(launcher: Launcher, size: usize) -> Launch {
        Launch {
            launcher,
            rank: 0,
            size,
            local_rank: None,
            master: None,
        }
    }

    #[test]
    fn one_rank_needs_no_engine() {
        for launcher in [Launcher::Alone, Launcher::OpenMpi, Launcher::Torchrun] {
            let group = Group::from_launch(&launch(launcher, 1), &Options::default()).unwrap();
            assert_eq!((group.rank(), group.size()), (0, 1));
        }
    }

    #[test]
    fn mpi_under_torchrun_is_refused_by_name() {
        let error =
            Group::from_launch(&launch(Launcher::Torchrun, 2), &Options::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Engine);
        let text = error.to_string();
        assert!(
            text.contains("`torchrun`") && text.contains("MPI") && text.contains("`mpirun`"),
            "{text}"
        );
    }

    #[cfg(not(feature = "mpi"))]
    #[test]
    fn a_build_without_an_engine_names_the_feature() {
        let error =
            Group::from_launch(&launch(Launcher::OpenMpi, 4), &Options::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Engine);
        assert!(error.to_string().contains("4 ranks"), "{error}");
        assert!(error.to_string().contains("`--features mpi`"), "{error}");
    }

    #[test]
    fn a_timeout_has_limits() {
        for seconds in [0, 24 * 3600 + 1] {
            let options = Options {
                timeout: std::time::Duration::from_secs(seconds),
                ..Options::default()
            };
            let error = Group::from_launch(&launch(Launcher::Alone, 1), &options).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Start);
            assert!(error.to_string().contains("timeout"), "{error}");
        }
    }
}
