//! What a host must have set up before a program can use a card, and what is told when it has not.
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::path::{Path, PathBuf};
use vfio_ioctls::VfioError;

const DRIVER: &str = "vfio-pci";

/// Where a host shows its devices.
pub(super) struct Host {
    sysfs: PathBuf,
    vfio: PathBuf,
}

/// Last part of what a link points to.
fn target(link: &Path) -> Option<String> {
    let to = std::fs::read_link(link).ok()?;
    Some(to.file_name()?.to_string_lossy().into_owned())
}

impl Host {
    pub fn here() -> Host {
        Host {
            sysfs: "/sys/bus/pci".into(),
            vfio: "/dev/vfio".into(),
        }
    }
    /// Directory of a device.
    pub fn device(&self, bdf: &str) -> PathBuf {
        self.sysfs.join("devices").join(bdf)
    }
    /// What stands in the way of opening a device, as far as the file system tells.
    pub fn obstacle(&self, bdf: &str) -> Option<String> {
        let dir = self.device(bdf);
        if !dir.exists() {
            return Some("there is no such PCI device; `lspci -D` lists them".into());
        }
        let driver = target(&dir.join("driver"));
        if driver.as_deref() != Some(DRIVER) {
            let d = dir.display();
            // nothing to take it from where nothing has it
            let (now, unbind) = match driver {
                None => ("no driver".into(), String::new()),
                Some(now) => (
                    format!("driver {now}"),
                    format!(" echo {bdf} > {d}/driver/unbind;"),
                ),
            };
            return Some(format!(
                "it is bound to {now} instead of {DRIVER}; as root: modprobe {DRIVER}; echo {DRIVER} > {d}/driver_override;{unbind} echo {bdf} > {}/drivers_probe",
                self.sysfs.display()
            ));
        }
        let Some(group) = target(&dir.join("iommu_group")) else {
            return Some("no IOMMU translates for it; switch the IOMMU on in the firmware, and boot an Intel machine with intel_iommu=on".into());
        };
        let file = self.vfio.join(&group);
        let opened = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&file);
        opened.err().map(|e| no_group(&file, &e))
    }
    /// What opening a container or a device said.
    pub fn explain(&self, e: &VfioError, bdf: &str) -> String {
        match e {
            VfioError::GroupViable => format!(
                "other devices of its IOMMU group are bound to drivers of the host; bind all of {}/iommu_group/devices to {DRIVER}",
                self.device(bdf).display()
            ),
            VfioError::OpenContainer(e) => {
                format!(
                    "{}: {e}; load the module {DRIVER}",
                    self.vfio.join("vfio").display()
                )
            }
            e => e.to_string(),
        }
    }
}

fn no_group(file: &Path, e: &io::Error) -> String {
    let f = file.display();
    match e.kind() {
        io::ErrorKind::PermissionDenied => format!(
            "no permission for {f}; as root: chown {} {f}",
            rustix::process::getuid().as_raw()
        ),
        io::ErrorKind::ResourceBusy => "another process uses it; one at a time can".into(),
        _ => format!("{f}: {e}"),
    }
}

/// Locked memory: as much as this process may.
pub(super) fn raise_memlock() {
    let limit = getrlimit(Resource::Memlock);
    let most = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // where it fails, the map that needs more says so
    let _ = setrlimit(Resource::Memlock, most);
}

/// Why memory could not be mapped.
pub(super) fn explain_map(e: &VfioError) -> String {
    let errno = match e {
        VfioError::IommuDmaMap(sys) => sys.errno(),
        _ => 0,
    };
    map_failed(errno, getrlimit(Resource::Memlock).current).unwrap_or_else(|| e.to_string())
}
fn map_failed(errno: i32, memlock: Option<u64>) -> Option<String> {
    let none_left = errno == rustix::io::Errno::NOMEM.raw_os_error();
    let bytes = memlock.filter(|_| none_left)?;
    Some(format!(
        "this process may lock {} KiB of memory (`ulimit -l`), which is not enough; raise it: `ulimit -l unlimited` as root, or LimitMEMLOCK= of a service, or memlock in /etc/security/limits.conf",
        bytes / 1024
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const BDF: &str = "0000:03:00.0";

    /// A host with a device, in a directory of its own.
    fn host(name: &str, driver: Option<&str>, group: Option<&str>) -> Host {
        let root = std::env::temp_dir().join(format!("rocenic-host-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let h = Host {
            sysfs: root.join("pci"),
            vfio: root.join("vfio"),
        };
        let dir = h.device(BDF);
        std::fs::create_dir_all(&dir).expect("directory");
        std::fs::create_dir_all(&h.vfio).expect("directory");
        for (link, to) in [("driver", driver), ("iommu_group", group)] {
            if let Some(to) = to {
                symlink(Path::new("../..").join(to), dir.join(link)).expect("link");
            }
        }
        h
    }
    #[track_caller]
    fn tells(h: &Host, bdf: &str, words: &[&str]) {
        let said = h.obstacle(bdf).expect("an obstacle");
        for w in words {
            assert!(said.contains(w), "`{w}` is not in: {said}");
        }
        if let Some(root) = h.vfio.parent() {
            let _ = std::fs::remove_dir_all(root);
        }
    }

    #[test]
    fn a_device_that_is_missing_is_told_with_what_lists_them() {
        tells(&host("missing", None, None), "0000:04:00.0", &["lspci"]);
    }
    #[test]
    fn a_device_of_another_driver_is_told_with_the_commands_that_bind_it() {
        let h = host("bound", Some("nvme"), Some("7"));
        let d = h.device(BDF).display().to_string();
        let commands = [
            "driver nvme instead of vfio-pci",
            "modprobe vfio-pci;",
            &format!("echo vfio-pci > {d}/driver_override;"),
            &format!("echo {BDF} > {d}/driver/unbind;"),
            "/drivers_probe",
        ];
        tells(&h, BDF, &commands);
        let h = host("free", None, Some("7"));
        assert!(!h.obstacle(BDF).unwrap_or_default().contains("unbind"));
        tells(
            &h,
            BDF,
            &["no driver instead of vfio-pci", "driver_override"],
        );
    }
    #[test]
    fn a_machine_without_an_iommu_is_told_what_switches_it_on() {
        tells(
            &host("flat", Some(DRIVER), None),
            BDF,
            &["no IOMMU", "intel_iommu=on"],
        );
    }
    #[test]
    fn a_group_that_cannot_be_opened_is_told_with_what_gives_it() {
        tells(
            &host("nogroup", Some(DRIVER), Some("7")),
            BDF,
            &["vfio/7", "No such file"],
        );
        let file = Path::new("/dev/vfio/7");
        let denied = no_group(file, &io::ErrorKind::PermissionDenied.into());
        assert!(denied.contains("as root: chown ") && denied.ends_with("/dev/vfio/7"));
        let busy = no_group(file, &io::ErrorKind::ResourceBusy.into());
        assert!(busy.contains("another process uses it"), "{busy}");
    }
    #[test]
    fn a_host_that_is_ready_has_no_obstacle() {
        let h = host("ready", Some(DRIVER), Some("7"));
        std::fs::write(h.vfio.join("7"), "").expect("a group");
        assert_eq!(h.obstacle(BDF), None);
        tells(&h, "0000:00:00.0", &[]);
    }
    #[test]
    fn a_limit_of_locked_memory_that_is_hit_is_told_with_its_size_and_what_raises_it() {
        let nomem = rustix::io::Errno::NOMEM.raw_os_error();
        let said = map_failed(nomem, Some(64 << 10)).expect("the limit");
        for w in ["64 KiB", "ulimit -l", "LimitMEMLOCK="] {
            assert!(said.contains(w), "`{w}` is not in: {said}");
        }
        // no limit, or another reason: the kernel's own words
        assert_eq!(map_failed(nomem, None), None);
        assert_eq!(map_failed(nomem + 1, Some(0)), None);
    }
    #[test]
    fn other_devices_of_the_group_are_told() {
        let said = Host::here().explain(&VfioError::GroupViable, BDF);
        assert!(
            said.contains("iommu_group/devices") && said.contains(DRIVER),
            "{said}"
        );
    }
}
