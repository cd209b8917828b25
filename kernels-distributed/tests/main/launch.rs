//! Variables of launchers, as tables.

use kernels_distributed::{ErrorKind, Launch, Launcher};
use std::collections::BTreeMap;

fn read(variables: &str) -> Result<Launch, kernels_distributed::Error> {
    let pair = |text: &str| {
        let (name, value) = text.split_once('=').unwrap();
        (name.to_string(), value.to_string())
    };
    Launch::from_variables(
        &variables
            .split_whitespace()
            .map(pair)
            .collect::<BTreeMap<_, _>>(),
    )
}

#[test]
fn each_launcher_is_understood() {
    let cases = [
        ("", Launcher::Alone, 0, 1, None, None),
        (
            "MASTER_ADDR=a MASTER_PORT=0 LOCAL_RANK=0",
            Launcher::Alone,
            0,
            1,
            None,
            None,
        ),
        (
            "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_LOCAL_RANK=1",
            Launcher::OpenMpi,
            1,
            3,
            Some(1),
            None,
        ),
        (
            "PMI_RANK=2 PMI_SIZE=4 MPI_LOCALRANKID=0",
            Launcher::Mpich,
            2,
            4,
            Some(0),
            None,
        ),
        (
            "SLURM_PROCID=5 SLURM_STEP_NUM_TASKS=8 SLURM_LOCALID=1",
            Launcher::Srun,
            5,
            8,
            Some(1),
            None,
        ),
        (
            "RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=node1 MASTER_PORT=29500",
            Launcher::Torchrun,
            1,
            2,
            Some(0),
            Some(("node1", 29500)),
        ),
        // A shell of an allocation, the script of a job, and `mpirun` inside of one with fewer ranks.
        ("SLURM_NTASKS=8", Launcher::Alone, 0, 1, None, None),
        (
            "SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_LOCALID=0",
            Launcher::Alone,
            0,
            1,
            None,
            None,
        ),
        // A step with fewer tasks than its job.
        (
            "SLURM_PROCID=1 SLURM_NTASKS=8 SLURM_STEP_NUM_TASKS=2",
            Launcher::Srun,
            1,
            2,
            None,
            None,
        ),
        (
            "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=8 OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4",
            Launcher::OpenMpi,
            3,
            4,
            None,
            None,
        ),
        // `srun` with PMI, scripts that set PyTorch's names too, and `srun torchrun`.
        (
            "SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 PMI_RANK=1 PMI_SIZE=2",
            Launcher::Mpich,
            1,
            2,
            None,
            None,
        ),
        (
            "SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 RANK=1 WORLD_SIZE=2 MASTER_ADDR=10.0.0.1 MASTER_PORT=65535",
            Launcher::Srun,
            1,
            2,
            None,
            Some(("10.0.0.1", 65535)),
        ),
        (
            "SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 RANK=9 WORLD_SIZE=16 LOCAL_RANK=1 TORCHELASTIC_RUN_ID=none",
            Launcher::Torchrun,
            9,
            16,
            Some(1),
            None,
        ),
    ];
    for (variables, launcher, rank, size, local_rank, master) in cases {
        let master = master.map(|(host, port): (&str, u16)| (host.to_string(), port));
        let want = Launch {
            launcher,
            rank,
            size,
            local_rank,
            master,
        };
        assert_eq!(read(variables).unwrap(), want, "{variables}");
    }
}

#[test]
fn bad_and_contradictory_variables_are_named() {
    let ompi = "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2";
    let advice = "unset those of the launcher that did not start this process";
    let contradiction = |pair: &str| format!("{pair}: {advice}");
    let cases = [
        (
            "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=2".into(),
            "OMPI_COMM_WORLD_RANK=2 is not below OMPI_COMM_WORLD_SIZE=2".into(),
        ),
        (
            "PMI_RANK=0 PMI_SIZE=0".into(),
            "PMI_SIZE=0: a group has at least one rank".into(),
        ),
        (
            "SLURM_STEP_NUM_TASKS=2".into(),
            "SLURM_STEP_NUM_TASKS is set, but SLURM_PROCID is not".into(),
        ),
        (
            "WORLD_SIZE=2".into(),
            "WORLD_SIZE is set, but RANK is not".into(),
        ),
        (
            "RANK=one WORLD_SIZE=2".into(),
            "RANK=`one` is not a number from 0 to 2147483647".into(),
        ),
        (
            "RANK=-1 WORLD_SIZE=2".into(),
            "RANK=`-1` is not a number from 0 to 2147483647".into(),
        ),
        (
            "RANK=+1 WORLD_SIZE=2".into(),
            "RANK=`+1` is not a number from 0 to 2147483647".into(),
        ),
        (
            "RANK=0 WORLD_SIZE=4294967296".into(),
            "WORLD_SIZE=`4294967296` is not a number from 0 to 2147483647".into(),
        ),
        (
            "RANK=\x1b[2J WORLD_SIZE=2".into(),
            r"RANK=`\u{1b}[2J` is not a number from 0 to 2147483647".into(),
        ),
        (
            "RANK=0 WORLD_SIZE=2 LOCAL_RANK=2".into(),
            "LOCAL_RANK=2 is not below WORLD_SIZE=2".into(),
        ),
        (
            format!("{ompi} RANK=0 WORLD_SIZE=2"),
            contradiction("OMPI_COMM_WORLD_RANK=1 contradicts RANK=0"),
        ),
        (
            format!("{ompi} RANK=1 WORLD_SIZE=4"),
            contradiction("OMPI_COMM_WORLD_SIZE=2 contradicts WORLD_SIZE=4"),
        ),
        (
            format!("{ompi} PMI_RANK=0 PMI_SIZE=2"),
            contradiction("OMPI_COMM_WORLD_RANK=1 contradicts PMI_RANK=0"),
        ),
        (
            "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 RANK=1 WORLD_SIZE=2".into(),
            contradiction("SLURM_PROCID=0 contradicts RANK=1"),
        ),
        (
            format!("{ompi} MASTER_ADDR=a"),
            "MASTER_ADDR is set, but MASTER_PORT is not".into(),
        ),
        (
            format!("{ompi} MASTER_PORT=1"),
            "MASTER_PORT is set, but MASTER_ADDR is not".into(),
        ),
        (
            format!("{ompi} MASTER_ADDR= MASTER_PORT=1"),
            "MASTER_ADDR has 0 bytes, not 1 to 253".into(),
        ),
        (
            format!("{ompi} MASTER_ADDR=a MASTER_PORT=0"),
            "MASTER_PORT=`0` is not a port from 1 to 65535".into(),
        ),
        (
            format!("{ompi} MASTER_ADDR=a MASTER_PORT=65536"),
            "MASTER_PORT=`65536` is not a port from 1 to 65535".into(),
        ),
    ];
    let cases: [(String, String); 19] = cases;
    for (variables, text) in cases {
        let error = read(&variables).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string()),
            (ErrorKind::Start, text),
            "{variables}"
        );
    }
}
