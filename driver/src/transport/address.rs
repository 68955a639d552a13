//! Names of devices, as users write them.
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
}

/// What addresses look like.
pub const FORMS: &str = "vfio-user:PATH (the socket of `rocenic sim serve`)";

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
            Some(_) => Err(bad("nothing begins like this")),
            None => Err(bad("the kind of device is missing")),
        }
    }
}
impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::VfioUser(path) => write!(f, "vfio-user:{}", path.display()),
        }
    }
}
impl Address {
    /// Opens the device that is there.
    pub fn open(&self) -> Result<Arc<dyn Transport>, TransportError> {
        match self {
            Address::VfioUser(path) => Ok(Arc::new(VfioUser::open(path)?)),
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
    }
    #[test]
    fn what_is_no_address_is_told_with_the_forms_there_are() {
        for s in ["", "nic", "vfio-user:", "mlx5:0"] {
            let e = s.parse::<Address>().expect_err(s).to_string();
            assert!(e.contains(FORMS) && e.contains(s), "{e}");
        }
    }
}
