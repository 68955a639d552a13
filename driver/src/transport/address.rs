//! Names of devices, as users write them.
use super::vfio::Vfio;
use super::vfio_user::VfioUser;
use super::{Transport, TransportError};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// Where a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// `vfio-user:PATH`: a simulator's socket.
    VfioUser(PathBuf),
    /// `vfio:DOMAIN:BUS:DEVICE.FUNCTION`: a PCI device bound to vfio-pci.
    Vfio(String),
}

/// What addresses look like.
pub const FORMS: &str = "vfio-user:PATH (the socket of `rocenic sim serve`) or vfio:0000:03:00.0 (a PCI device bound to vfio-pci)";

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not the address of a device: {what}; write {FORMS}")]
pub struct AddressError {
    given: String,
    what: &'static str,
}

impl FromStr for Address {
    type Err = AddressError;
    fn from_str(s: &str) -> Result<Self, AddressError> {
        let bad = |what| AddressError {
            given: s.into(),
            what,
        };
        match s.split_once(':') {
            Some(("vfio-user", "")) => Err(bad("the path is missing")),
            Some(("vfio-user", path)) => Ok(Address::VfioUser(path.into())),
            Some(("vfio", bdf)) if is_bdf(bdf) => Ok(Address::Vfio(bdf.to_ascii_lowercase())),
            Some(("vfio", _)) => Err(bad(
                "a PCI device is DOMAIN:BUS:DEVICE.FUNCTION, in hexadecimal digits",
            )),
            Some(_) => Err(bad("nothing begins like this")),
            None => Err(bad("the kind of device is missing")),
        }
    }
}
/// Four, two and two hexadecimal digits and a function below 8.
fn is_bdf(s: &str) -> bool {
    let hex = |part: Option<&str>, digits| {
        part.is_some_and(|p| p.len() == digits && p.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    let mut parts = s.splitn(3, ':');
    let front = hex(parts.next(), 4) && hex(parts.next(), 2);
    let last = parts.next().and_then(|p| p.split_once('.'));
    front
        && last.is_some_and(|(device, function)| {
            hex(Some(device), 2) && function.len() == 1 && ("0"..="7").contains(&function)
        })
}
impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::VfioUser(path) => write!(f, "vfio-user:{}", path.display()),
            Address::Vfio(bdf) => write!(f, "vfio:{bdf}"),
        }
    }
}
impl Address {
    /// Opens the device that is there.
    pub fn open(&self) -> Result<Arc<dyn Transport>, TransportError> {
        match self {
            Address::VfioUser(path) => Ok(Arc::new(VfioUser::open(path)?)),
            Address::Vfio(bdf) => Ok(Arc::new(Vfio::open(bdf)?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        let a: Address = "vfio-user:/run/nic:0".parse().expect("address");
        assert_eq!(a, Address::VfioUser("/run/nic:0".into()));
        assert_eq!(a.to_string(), "vfio-user:/run/nic:0");
        let a: Address = "vfio:0000:AF:1f.7".parse().expect("address");
        assert_eq!(a, Address::Vfio("0000:af:1f.7".into()));
        assert_eq!(a.to_string(), "vfio:0000:af:1f.7");
    }
    #[test]
    fn what_is_no_address_is_told_with_the_forms_there_are() {
        let bdfs = [
            "vfio:03:00.0",
            "vfio:0000:03:00",
            "vfio:0000:03:00.8",
            "vfio:../../x",
        ];
        for s in ["", "nic", "vfio-user:", "mlx5:0"].iter().chain(&bdfs) {
            let e = s.parse::<Address>().expect_err(s).to_string();
            assert!(e.contains(FORMS) && e.contains(*s), "{e}");
        }
    }
}
