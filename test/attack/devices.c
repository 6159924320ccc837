/* devices.c - nodes of /dev that reach the hardware, the kernel or somebody's terminal */
#include "probe.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>

static void open_device(const char *path)
{
	expect_denied(raw(SYS_openat, AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_NOCTTY), EACCES,
		      EPERM, ENOENT);
}

#define DEVICE(id, class, path)         \
	ATTACK(id, class, "open " path) \
	{                               \
		open_device(path);      \
	}

DEVICE(device_mem, ESCAPE, "/dev/mem")
DEVICE(device_port, ESCAPE, "/dev/port")
DEVICE(device_kmsg, HOST_LEAK, "/dev/kmsg")
DEVICE(device_kvm, ESCAPE, "/dev/kvm")
DEVICE(device_tun, EXFIL, "/dev/net/tun")
DEVICE(device_vsock, ESCAPE, "/dev/vsock")
DEVICE(device_vhost_net, ESCAPE, "/dev/vhost-net")
DEVICE(device_fuse, ESCAPE, "/dev/fuse")
DEVICE(device_loop_control, ESCAPE, "/dev/loop-control")
DEVICE(device_loop, ESCAPE, "/dev/loop0")
DEVICE(device_disk, ESCAPE, "/dev/vda")
DEVICE(device_disk_scsi, ESCAPE, "/dev/sda")
DEVICE(device_zram, ESCAPE, "/dev/zram0")
DEVICE(device_dri, ESCAPE, "/dev/dri/card0")
DEVICE(device_uinput, ESCAPE, "/dev/uinput")
DEVICE(device_input, HOST_LEAK, "/dev/input/event0")
DEVICE(device_userfaultfd, ESCAPE, "/dev/userfaultfd")
DEVICE(device_console, HOST_DOS, "/dev/console")
DEVICE(device_screen, HOST_LEAK, "/dev/vcs1")
DEVICE(device_serial, HOST_LEAK, "/dev/ttyS0")
DEVICE(device_autofs, ESCAPE, "/dev/autofs")
DEVICE(device_btrfs, ESCAPE, "/dev/btrfs-control")
DEVICE(device_latency, HOST_DOS, "/dev/cpu_dma_latency")
DEVICE(device_hwrng, HOST_DOS, "/dev/hwrng")
DEVICE(device_shm, LATERAL, "/dev/shm")
DEVICE(device_ptmx, HOST_DOS, "/dev/ptmx")

/* Any request will do: this one asks how much is left. */
ATTACK(device_control, ESCAPE, "control a device that may only be read (ioctl)")
{
	int fd = (int)expect_denied(raw(SYS_openat, AT_FDCWD, scene("device"), O_RDONLY), EACCES,
				    EPERM),
	    left;

	expect_denied(raw(SYS_ioctl, fd, 0x80045200 /* RNDGETENTCNT */, &left), EACCES, EPERM);
}

ATTACK(terminal_read, HOST_LEAK, "open another terminal of the user for reading")
{
	open_device(scene("terminal"));
}

ATTACK(terminal_write, LATERAL, "write to another terminal of the user")
{
	spoil_file(scene("terminal"));
}

ATTACK(terminal_type_other, ESCAPE, "type into another terminal of the user (TIOCSTI)")
{
	int fd = (int)expect_denied(raw(SYS_openat, AT_FDCWD, scene("terminal"), O_RDWR | O_NOCTTY),
				    EACCES, EPERM, ENOENT);

	expect_denied(ioctl(fd, TIOCSTI, "x"), EPERM, EIO, EACCES);
}

/* On the terminal that the sandbox was given: descriptor 0. */
static void own_terminal(unsigned long request, const void *argument)
{
	struct termios now;

	need(ioctl(0, TCGETS, &now), "a terminal as standard input");
	expect_denied(raw(SYS_ioctl, 0, request, argument), EPERM, EACCES);
}

ATTACK(tty_type, ESCAPE, "type into the own terminal (TIOCSTI)")
{
	own_terminal(TIOCSTI, "x");
}

ATTACK(tty_type_high_half, ESCAPE, "the same with a request of more than 32 bits")
{
	own_terminal(1UL << 32 | TIOCSTI, "x");
}

ATTACK(tty_linux, ESCAPE, "paste the console's selection (TIOCLINUX)")
{
	own_terminal(TIOCLINUX, "\3");
}

ATTACK(tty_discipline, ESCAPE, "load a line discipline (TIOCSETD)")
{
	const int discipline = 0;

	own_terminal(TIOCSETD, &discipline);
}

ATTACK(tty_console, HOST_LEAK, "take over the output of the console (TIOCCONS)")
{
	own_terminal(TIOCCONS, NULL);
}

ATTACK(tty_exclusive, HOST_DOS, "lock others out of the terminal (TIOCEXCL)")
{
	own_terminal(TIOCEXCL, NULL);
}
