# SPDX-License-Identifier: LGPL-2.1-or-later
"""An emulated machine: QEMU without an accelerator, driven over QMP.

The template machine has no cards and no job. It is booted once and saved; each clone starts from what was
saved, its memory mapped copy-on-write, and gets its cards and its job disk while it runs: QEMU's NVMe
controllers cannot be saved.
"""

import json
import os
import socket
import subprocess
import time

QEMU = 'qemu-system-x86_64'
MEMORY = '1024M'
CARD_PORTS = 3

# Under sanitizers or on a loaded machine everything takes longer; the suite never hurries a machine.
SLOW = float(os.environ.get('VGPU_TEST_SLOW', '1'))


class MachineError(Exception):
    """The emulator, not the guest, went wrong."""


def arguments(image, private, incoming):
    """The command line; template and clone must describe the same devices."""
    share = 'off' if incoming else 'on'
    command = [
        QEMU, '-nodefaults', '-no-user-config', '-display', 'none', '-no-reboot',
        '-machine', 'q35,accel=tcg,kernel-irqchip=split,sata=off,memory-backend=ram',
        '-cpu', 'max', '-smp', '1', '-m', MEMORY,
        '-object', f'memory-backend-file,id=ram,size={MEMORY},mem-path={image}/ram,share={share}',
        '-device', 'intel-iommu,intremap=on',
        '-kernel', f'{image}/vmlinuz', '-initrd', f'{image}/initrd',
        # A loaded host lets the emulated timer tick too late for the kernel's check of it.
        '-append', 'console=ttyS0 intel_iommu=on quiet panic=-1 no_timer_check root=/dev/vda ro',
        '-drive', f'file={image}/root.img,format=raw,if=none,id=root,readonly=on',
        '-device', 'virtio-blk-pci,drive=root,serial=root',
        '-chardev', f'file,id=console,path={private}/console.log',
        '-serial', 'chardev:console',
        '-chardev', f'socket,id=job,path={private}/job.sock,server=on,wait=off',
        '-serial', 'chardev:job',
        '-chardev', f'socket,id=qmp,path={private}/qmp.sock,server=on,wait=off',
        '-mon', 'chardev=qmp,mode=control',
        '-device', 'pcie-root-port,id=disk-port,chassis=1,slot=1',
    ]
    for i in range(CARD_PORTS):
        command += ['-device', f'pcie-root-port,id=card-port{i},chassis={i + 2},slot={i + 2}']
        command += ['-device', f'nvme-subsys,id=subsystem{i}']
    if incoming:
        command += ['-incoming', 'defer']
    return command


class Machine:
    """A running emulator. Use it as a context manager: leaving it ends the emulator."""

    def __init__(self, image, private, clone):
        self.private = private
        self.log = open(f'{private}/qemu.log', 'wb')
        self.process = subprocess.Popen(arguments(image, private, clone), stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=self.log)
        try:
            self.qmp = self._connect('qmp.sock')
            self.qmp_lines = self.qmp.makefile('rb')
            self._read_qmp()
            self.command('qmp_capabilities')
            self.job = self._connect('job.sock')
            if clone:
                self._load(image)
        except BaseException:
            self.end()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.end()

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.log.close()

    def _connect(self, name):
        deadline = time.monotonic() + 30 * SLOW
        while True:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(f'{self.private}/{name}')
                return connection
            except OSError:
                connection.close()
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise MachineError(f'QEMU gave no {name}: {self.explain()}') from None
                time.sleep(0.01)

    def explain(self):
        """What QEMU itself said, and how it ended."""
        self.log.flush()
        with open(f'{self.private}/qemu.log', encoding='utf-8', errors='replace') as log:
            said = log.read().strip()
        code = self.process.poll()
        return f'{said or "no message"} (exit status {code})'

    def _read_qmp(self):
        line = self.qmp_lines.readline()
        if not line:
            self.process.wait()
            raise MachineError(f'QEMU ended: {self.explain()}')
        return json.loads(line)

    def command(self, name, **arguments_):
        self.qmp.settimeout(120 * SLOW)
        request = {'execute': name}
        if arguments_:
            request['arguments'] = arguments_
        self.qmp.sendall(json.dumps(request).encode() + b'\n')
        while True:
            answer = self._read_qmp()
            if 'return' in answer:
                return answer['return']
            if 'error' in answer:
                raise MachineError(f'{name}: {answer["error"]["desc"]}')

    def _set_capabilities(self):
        # The memory is a file of its own, so it is not part of the saved state.
        self.command('migrate-set-capabilities', capabilities=[{'capability': 'x-ignore-shared', 'state': True}])

    def _migrated(self):
        deadline = time.monotonic() + 120 * SLOW
        while True:
            status = self.command('query-migrate').get('status')
            if status == 'completed':
                return
            if status in ('failed', 'cancelled') or time.monotonic() > deadline:
                raise MachineError(f'migration is {status}: {self.explain()}')
            time.sleep(0.01)

    def save(self, image):
        self.command('stop')
        self._set_capabilities()
        self.command('migrate', uri=f'exec:cat > {image}/state')
        self._migrated()
        self.command('quit')
        self.process.wait()

    def _load(self, image):
        self._set_capabilities()
        self.command('migrate-incoming', uri=f'exec:cat {image}/state')
        self._migrated()
        self.command('cont')

    def add_card(self, port, sriov):
        if sriov:
            self.command('device_add', driver='nvme', id=f'card{port}', serial=f'card{port}',
                         bus=f'card-port{port}', subsys=f'subsystem{port}', sriov_max_vfs=16,
                         sriov_vq_flexible=32, sriov_vi_flexible=16, max_ioqpairs=40, msix_qsize=40)
        else:
            self.command('device_add', driver='edu', id=f'card{port}', bus=f'card-port{port}')

    def add_disk(self, path):
        self.command('blockdev-add', **{'driver': 'raw', 'node-name': 'job', 'read-only': True,
                                        'file': {'driver': 'file', 'filename': path}})
        self.command('device_add', driver='virtio-blk-pci', id='job-disk', drive='job', serial='job',
                     bus='disk-port')
