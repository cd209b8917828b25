//! Devices that another program serves, as given to `--device remote:…`.

use crate::output;
use anyhow::Context;
use burn::tensor::Device;
use burn_kernels::remote::{self, Address};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

/// The environment variable with the token. An argument would be visible to every user of the machine.
pub const TOKEN: &str = "BURN_KERNELS_TOKEN";

/// The environment variable that names the file of this program's Iroh identity, for servers with a list of endpoints.
const IDENTITY: &str = "BURN_KERNELS_IDENTITY";

/// The address of a server, with `#N` for another device than the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    address: Address,
    index: usize,
}

/// The devices of all servers that this program has connected to, with one session for each device.
static CONNECTED: Mutex<Vec<(Address, Vec<Device>)>> = Mutex::new(Vec::new());

fn token() -> String {
    std::env::var(TOKEN).unwrap_or_default()
}

/// Loads the Iroh identity that the environment names, if there is one, and prints its endpoint id.
fn identify(address: &Address) -> anyhow::Result<()> {
    let Some(path) = std::env::var_os(IDENTITY).filter(|_| matches!(address, Address::Iroh { .. }))
    else {
        return Ok(());
    };
    let path = PathBuf::from(path);
    let id = remote::client_identity(&path).with_context(|| {
        format!(
            "the identity of {IDENTITY}, {}, can't be read or created",
            path.display()
        )
    })?;
    output::note(format_args!("connecting as the Iroh endpoint {id}"));
    Ok(())
}

impl Remote {
    /// Returns the device. The first call for a server connects to it.
    ///
    /// # Errors
    /// Returns an error if the server can't be reached, refuses the token or has no such device.
    pub fn device(&self) -> anyhow::Result<Device> {
        let mut connected = CONNECTED.lock().unwrap_or_else(PoisonError::into_inner);
        let known = connected
            .iter()
            .find(|(address, _)| *address == self.address);
        let devices = match known {
            Some((_, devices)) => devices.clone(),
            None => {
                identify(&self.address)?;
                let devices = remote::connect(&self.address, &token());
                let devices = devices.with_context(|| self.with_token())?;
                connected.push((self.address.clone(), devices.clone()));
                devices
            }
        };
        let count = devices.len();
        let device = devices.into_iter().nth(self.index);
        device.with_context(|| format!("{} serves {count} devices; the first is #0", self.address))
    }

    /// Names the option and the place of the token.
    fn with_token(&self) -> String {
        match std::env::var_os(TOKEN) {
            Some(_) => format!("--device remote:{self} (token in {TOKEN})"),
            None => format!("--device remote:{self} (no token, as {TOKEN} is not set)"),
        }
    }

    /// Returns `true` if both are devices of one server.
    pub fn is_beside(&self, other: &Self) -> bool {
        self.address == other.address
    }

    /// Returns the reason why the device's session ended, if it did: the server's reason, or that the server is gone.
    pub fn failure(&self) -> Option<String> {
        let connected = CONNECTED.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, devices) = connected
            .iter()
            .find(|(address, _)| *address == self.address)?;
        let device = devices.get(self.index)?;
        // If the server is gone, `failure` returns nothing.
        if let Err(error) = remote::connect(&self.address, &token()) {
            return Some(error.to_string());
        }
        let why = remote::failure(device)?;
        Some(format!("the server at {} reported: {why}", self.address))
    }
}

impl FromStr for Remote {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, index) = match text.rsplit_once('#') {
            Some((address, index)) => {
                let index = index
                    .parse()
                    .map_err(|_| format!("`{index}` is not a device number"))?;
                (address, index)
            }
            None => (text, 0),
        };
        let address = address.parse().map_err(|error| format!("{error}"))?;
        Ok(Self { address, index })
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            0 => self.address.fmt(f),
            index => write!(f, "{}#{index}", self.address),
        }
    }
}
