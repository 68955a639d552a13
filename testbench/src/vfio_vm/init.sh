#!/bin/busybox sh
# The guest's only program: binds the NICs to vfio-pci and runs `rocenic` on them. Each step is a line that begins with STEP;
# the last line says whether all went well.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
[ -c /dev/null ] || mount -t devtmpfs dev /dev
ifconfig lo 127.0.0.1 up
echo "BOOTED $(uname -r), $(cut -d' ' -f1 /proc/uptime) s"
echo 8 > /proc/sys/vm/nr_hugepages
for m in irqbypass vfio vfio_iommu_type1 vfio-pci-core vfio-pci; do insmod /lib/modules/$m.ko; done

mkdir -p /etc
echo 'user:x:1000:1000::/:/bin/sh' > /etc/passwd
echo 'user:x:1000:' > /etc/group

NICS=
for d in /sys/bus/pci/devices/*; do
    [ "$(cat $d/vendor):$(cat $d/device)" = "$(cat /identity)" ] && NICS="$NICS ${d##*/}"
done
set -- $NICS
A=vfio:$1 B=vfio:$2

FAILED=0
# judge NAME STATUS WANTED-STATUS WANTED-TEXT: what is in /tmp/out
judge() {
    sed 's/^/    /' /tmp/out
    if [ "$2" = "$3" ] && grep -q -- "$4" /tmp/out; then
        echo "STEP ok $1"
    else
        echo "STEP failed $1: exit status $2 instead of $3, or no '$4'"
        FAILED=1
    fi
}
# check NAME WANTED-STATUS WANTED-TEXT COMMAND...
check() {
    name=$1 status=$2 text=$3
    shift 3
    "$@" > /tmp/out 2>&1 < /dev/null
    judge "$name" $? "$status" "$text"
}
# user LIMIT COMMAND...: as user 1000 with so much locked memory
user() {
    (
        ulimit -l "$1"
        shift
        exec start-stop-daemon -S -c 1000:1000 -x /bin/rocenic -- "$@"
    )
}

check "a device without vfio-pci is told with the commands that bind it" 2 driver_override rocenic devinfo $A
for n in $NICS; do
    echo vfio-pci > /sys/bus/pci/devices/$n/driver_override
    echo $n > /sys/bus/pci/drivers_probe
done
check "devinfo of the first NIC" 0 "queue pairs" rocenic devinfo $A
check "devinfo of the second NIC" 0 "queue pairs" rocenic devinfo $B
NONCE=$(head -c 12 /dev/urandom | hexdump -e '12/1 "%02x"')
echo "NONCE $NONCE"
check "data, interrupts, a fault, opening again" 0 "steps passed" rocenic selftest $A $B --text $NONCE

rocenic pingpong --dev $A -n 1000000 > /tmp/out 2>&1 < /dev/null &
WAITS=$!
sleep 2
rocenic pingpong --dev $B -n 1000000 127.0.0.1 > /dev/null 2>&1 < /dev/null &
GOES=$!
sleep 4
kill -9 $GOES
wait $WAITS
judge "a driver killed in the middle of a transfer is told at the other end" $? 2 "127.0.0.1"
check "both NICs work after a driver was killed" 0 "steps passed" rocenic selftest $A $B

check "a user without permission is told what gives it" 2 chown user 64 devinfo $A
chown 1000 /dev/vfio/[0-9]*
check "a user who may lock too little memory is told so" 2 "ulimit -l" user 64 selftest $A $B
check "a user with permission and memory" 0 "steps passed" user unlimited selftest $A $B

echo "GUEST-EXIT $FAILED"
poweroff -f
