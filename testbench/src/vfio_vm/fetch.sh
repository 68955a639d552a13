#!/bin/bash
# fetch.sh DIR: into DIR a QEMU that has vfio-user-pci, busybox, and a kernel with its VFIO modules, from Debian's packages.
# Installs nothing and reads none of the system's package state: apt works in a directory of its own.
set -euo pipefail
D=$1 A=$1/apt
SUITE=trixie
KEY=/usr/share/keyrings/debian-archive-keyring.gpg
# the machine's own mirror
MIRROR=$(apt-cache policy | awk '$2 ~ /^http/ && $2 ~ /debian$/ {print $2; exit}')
[ -n "$MIRROR" ] || { echo "no Debian mirror among this machine's package sources" >&2; exit 1; }
rm -rf "$A" "$D/unpacked" "$D/kernel"
mkdir -p "$A"/etc/apt.conf.d "$A"/etc/preferences.d "$A"/etc/trusted.gpg.d "$A"/parts "$A"/log
mkdir -p "$A"/state/lists/partial "$A"/cache/archives/partial "$D"/unpacked "$D"/kernel "$D"/lib "$D"/share "$D"/modules
cat > "$A/apt.conf" <<EOF
Dir "$A"; Dir::Etc "$A/etc"; Dir::Etc::sourcelist "$A/sources.list"; Dir::Etc::sourceparts "$A/parts";
Dir::State "$A/state"; Dir::State::status "$A/status"; Dir::Cache "$A/cache"; Dir::Log "$A/log";
APT::Architecture "amd64"; APT::Architectures { "amd64"; }; APT::Install-Recommends "false";
APT::Sandbox::User "root"; Acquire::Languages "none";
EOF
: > "$A/status"
for s in $SUITE $SUITE-backports; do echo "deb [signed-by=$KEY] $MIRROR $s main"; done > "$A/sources.list"
export APT_CONFIG=$A/apt.conf
apt-get update -qq
apt-get install -qq -y --download-only -t $SUITE-backports qemu-system-x86 busybox-static > /dev/null
for p in "$A"/cache/archives/*.deb; do dpkg-deb -x "$p" "$D/unpacked"; done
# the cloud flavour has the Intel IOMMU built in and VFIO as modules
K=$(apt-cache search --names-only '^linux-image-6\.12\..*-cloud-amd64-unsigned$' | sort -V | tail -1 | cut -d' ' -f1)
(cd "$A/cache" && apt-get download -qq "$K" && dpkg-deb -x linux-image-*.deb "$D/kernel")

U=$D/unpacked LIB=$D/unpacked/usr/lib/x86_64-linux-gnu
"$U/usr/lib64/ld-linux-x86-64.so.2" --library-path "$LIB" --list "$U/usr/bin/qemu-system-x86_64" |
    awk '/=> \//{print $3}' | sort -u | xargs -I{} cp -L {} "$D/lib/"
cp -L "$U/usr/lib64/ld-linux-x86-64.so.2" "$D/lib/"
cp "$U/usr/bin/qemu-system-x86_64" "$U/usr/bin/busybox" "$D/"
for f in bios-256k.bin kvmvapic.bin linuxboot_dma.bin pvh.bin multiboot_dma.bin; do
    cp -L "$(find -L "$U/usr/share/qemu" "$U/usr/share/seabios" -name $f | head -1)" "$D/share/"
done
cp "$D"/kernel/boot/vmlinuz-* "$D/vmlinuz"
for m in irqbypass vfio vfio_iommu_type1 vfio-pci-core vfio-pci; do
    xz -dc "$(find "$D/kernel" -name $m.ko.xz | head -1)" > "$D/modules/$m.ko"
done
rm -rf "$A" "$D/unpacked" "$D/kernel"
