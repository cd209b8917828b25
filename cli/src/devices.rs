//! The devices of a training run: `--device`, or `--devices` for a share of each batch on each.

use crate::choice::DeviceChoice;
use anyhow::ensure;
use burn::tensor::Device;
use burn_kernels::dispatch::DeviceKind;
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::fmt;
use std::str::FromStr;

/// The options.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    /// The device to train on.
    #[arg(long, default_value = "cpu")]
    device: DeviceChoice,
    /// Several NPUs of one machine to train on, as in npu:0,npu:1, or of one server. Each gets an equal share of a batch.
    #[arg(long, value_name = "DEVICE,DEVICE", conflicts_with = "device")]
    devices: Option<Devices>,
}

impl Args {
    /// Returns the devices of the run.
    pub fn chosen(&self) -> Devices {
        match &self.devices {
            Some(devices) => devices.clone(),
            None => Devices(vec![self.device.clone()]),
        }
    }
}

/// Serialises the option that was given, because both together are refused.
impl Serialize for Args {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        match &self.devices {
            Some(devices) => map.serialize_entry("devices", devices)?,
            None => map.serialize_entry("device", &self.device)?,
        }
        map.end()
    }
}

/// One device, or several that can add up gradients together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Devices(Vec<DeviceChoice>);

impl Devices {
    /// Returns the devices, of which there is at least one.
    pub fn all(&self) -> &[DeviceChoice] {
        &self.0
    }

    /// Returns the first device, which validates and has the model that is saved.
    pub fn first(&self) -> &DeviceChoice {
        &self.0[0]
    }

    /// Returns the names of the devices.
    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(DeviceChoice::to_string).collect()
    }

    /// Returns `true` if there are several.
    pub fn are_several(&self) -> bool {
        self.0.len() > 1
    }

    /// Checks that a batch has an equal share for each device.
    ///
    /// # Errors
    /// Returns an error if it has not.
    pub fn check_batch(&self, batch: usize) -> anyhow::Result<()> {
        let count = self.0.len();
        ensure!(
            batch.is_multiple_of(count),
            "--batch is {batch}, which {count} devices can't share equally; give a multiple of {count}, as {} is",
            batch.next_multiple_of(count)
        );
        Ok(())
    }

    /// Returns the Burn devices, with autodiff.
    ///
    /// # Errors
    /// Returns an error if a device can't be reached, or if one of several is not an NPU.
    pub fn open(&self) -> anyhow::Result<Vec<Device>> {
        let opened = self.0.iter().map(|choice| {
            let device = choice.device()?;
            ensure!(
                DeviceKind::of(&device) == DeviceKind::Npu || !self.are_several(),
                "{choice} is not an NPU, and only NPUs add up gradients together; train on it alone, by --device {choice}"
            );
            Ok(device.autodiff())
        });
        opened.collect()
    }
}

impl FromStr for Devices {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let devices: Vec<DeviceChoice> =
            text.split(',').map(str::parse).collect::<Result<_, _>>()?;
        let mut pairs = devices.iter().zip(devices.iter().skip(1));
        if let Some((one, other)) = pairs.find(|(one, other)| !one.is_beside(other)) {
            return Err(format!(
                "{one} and {other} can't add up gradients together; NPUs of one machine can, as npu:0,npu:1, and \
                 those of one server, as remote:ADDRESS,remote:ADDRESS#1"
            ));
        }
        for (at, device) in devices.iter().enumerate() {
            if devices[..at].contains(device) {
                return Err(format!("{device} is there twice"));
            }
        }
        Ok(Self(devices))
    }
}

impl fmt::Display for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().join(","))
    }
}

impl Serialize for Devices {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_device_is_any_and_its_batch_too() {
        let one: Devices = "cpu".parse().unwrap();
        assert_eq!(
            (one.to_string().as_str(), one.are_several()),
            ("cpu", false)
        );
        one.check_batch(5).unwrap();
        let error = "cpu,cpu".parse::<Devices>().unwrap_err();
        assert!(error.contains("npu:0,npu:1"), "{error}");
    }

    #[cfg(feature = "npu")]
    #[test]
    fn several_are_of_one_machine_or_server() {
        let two: Devices = "npu:0,npu:1".parse().unwrap();
        assert_eq!(two.to_string(), "npu,npu:1");
        assert_eq!(two.to_string().parse::<Devices>().unwrap(), two);
        two.check_batch(4).unwrap();
        let error = two.check_batch(5).unwrap_err().to_string();
        assert!(
            error.contains("--batch is 5") && error.contains("6 is"),
            "{error}"
        );
        let there = "remote:ws://127.0.0.1:1,remote:ws://127.0.0.1:1#1";
        assert!(there.parse::<Devices>().unwrap().are_several());
        for (text, expected) in [
            ("npu:1,npu:1", "twice"),
            ("npu,cpu", "npu and cpu can't"),
            ("npu,remote:ws://127.0.0.1:1", "one server"),
            (
                "remote:ws://127.0.0.1:1,remote:ws://127.0.0.1:2",
                "one server",
            ),
            ("npu,", "no device ``"),
        ] {
            let error = text.parse::<Devices>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
