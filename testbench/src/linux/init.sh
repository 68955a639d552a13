#!/bin/sh
# The guest's first program: rxe on eth0, then whatever the host asks for on a virtio-serial port.
export PATH=/bin HOME=/
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mkdir -p /dev/shm && mount -t tmpfs shm /dev/shm
exec </dev/console >/dev/console 2>&1
halt() { sync; poweroff -f; }
# nobody needs this guest for longer, whatever became of its host
(sleep "3600"; halt) &
for word in $(cat /proc/cmdline); do
    case $word in rocenic.*=*) export "${word#rocenic.}" ;; esac
done
for m in $(cat /modules); do
    insmod "/lib/modules/$m.ko" || echo "module $m: not loaded"
done
ulimit -l unlimited
hostname guest
echo "127.0.0.1 localhost guest" >/etc/hosts
ip link set lo up
n=0
while [ ! -e /sys/class/net/eth1 ] && [ $n -lt 500 ]; do n=$((n + 1)); usleep 20000; done
# eth0 is the wire; its neighbour has no ARP
ip link set eth0 mtu "$mtu"
ip addr add "$address" dev eth0
ip link set eth0 up
ip neigh add "$peer" lladdr "$peer_mac" dev eth0
# eth1 is the way the tools find each other
ip addr add 10.0.2.15/24 dev eth1
ip link set eth1 up
rdma link add rxe0 type rxe netdev eth0 || echo "rxe0: not made"
for p in /sys/class/virtio-ports/*; do
    [ "$(cat "$p/name")" = control ] && control=/dev/${p##*/}
done
exec 3<>"$control"
# one answer at a time
answer() {
    until mkdir /tmp/answering 2>/dev/null; do usleep 5000; done
    sed "s/^/$1| /" "/tmp/out.$1" >&3
    echo "$1= $2" >&3
    rm -f "/tmp/out.$1"
    rmdir /tmp/answering
}
echo "ready $(uname -r) $(cut -d' ' -f1 /proc/uptime)" >&3
while read -r tag command <&3; do
    [ -n "$tag" ] || continue
    ( sh -c "$command" </dev/null >"/tmp/out.$tag" 2>&1 3>&-; answer "$tag" $? ) &
done
# the host is gone
halt
