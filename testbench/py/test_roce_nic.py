"""The whole NIC between cocotbext-axi's models: registers over AXI4-Lite, host memory behind AXI4, the MAC over
AXI4-Stream. One RC WRITE goes out, a foreign ACK comes back, the completion lands in host memory.

Everything the contract decides (commands as mailbox words, the WQE, where fields stand) comes in ROCENIC_FACTS.
"""
import json
import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, with_timeout
from cocotbext.axi import (AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam, AxiStreamBus, AxiStreamFrame, AxiStreamSink,
                           AxiStreamSource)

from icrc import icrc

FACTS = json.loads(os.environ["ROCENIC_FACTS"])


def gaps(rng, share):
    while True:
        yield rng.random() < share


class Bench:
    def __init__(self, dut, pause):
        self.dut = dut
        cocotb.start_soon(Clock(dut.clk, 4, "ns").start())
        for pin in ("flr_req", "bus_master_enable", "irq_ready") + tuple(FACTS["other_inputs"]):
            getattr(dut, pin).value = 0
        dut.rst.value = 1
        dut.bus_master_enable.value = 1
        dut.irq_ready.value = 1
        self.bar = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
        self.ram = AxiRam(AxiBus.from_prefix(dut, "m_axi"), dut.clk, dut.rst, size=2**20)
        self.tx = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis_tx"), dut.clk, dut.rst)
        self.rx = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis_rx"), dut.clk, dut.rst)
        if pause:
            rng = random.Random(cocotb.RANDOM_SEED)
            for channel in (self.ram.write_if.aw_channel, self.ram.write_if.w_channel, self.ram.write_if.b_channel,
                            self.ram.read_if.ar_channel, self.ram.read_if.r_channel, self.tx):
                channel.set_pause_generator(gaps(rng, pause))

    async def reset(self):
        await ClockCycles(self.dut.clk, 8)
        self.dut.rst.value = 0
        address, mask = FACTS["ready"]
        for _ in range(1000):
            if await self.bar.read_dword(address) & mask:
                return
            await ClockCycles(self.dut.clk, 20)
        raise AssertionError("the device never gets ready")

    async def command(self, c):
        for i, word in enumerate(c["words"]):
            await self.bar.write_dword(FACTS["cmd_in"] + 4 * i, word)
        await self.bar.write_dword(FACTS["cmd_go"], c["go"])
        for _ in range(1000):
            status = await self.bar.read_dword(FACTS["cmd_status"])
            if not status & FACTS["busy"]:
                assert status & ~FACTS["busy"] == c["want"], f"{c['name']}: command status {status:#010x}"
                return
        raise AssertionError(f"{c['name']}: stays busy")


async def write_and_complete(dut, pause):
    b = Bench(dut, pause)
    await b.reset()
    payload = random.Random(cocotb.RANDOM_SEED).randbytes(FACTS["length"])
    b.ram.write(FACTS["payload_at"], payload)
    b.ram.write(FACTS["sq_at"], bytes.fromhex(FACTS["wqe"]))
    await b.bar.write_dword(*FACTS["enable"])
    for c in FACTS["commands"]:
        await b.command(c)
    await b.bar.write_dword(*FACTS["doorbell"])

    got = b""
    for want in FACTS["packets"]:
        frame = await with_timeout(b.tx.recv(), 200, "us")
        f = bytes(frame.tdata)
        assert f[-4:] == icrc(f), f"ICRC of {f.hex()}"
        bth = 14 + 20 + 8
        assert (f[bth], int.from_bytes(f[bth + 9:bth + 12], "big")) == (want["opcode"], want["psn"]), f.hex()
        assert f[bth + 8] >> 7 == want["ackreq"], f"AckReq at PSN {want['psn']}"
        pad = f[bth + 1] >> 4 & 3
        got += f[14 + 20 + 8 + want["headers"]:len(f) - 4 - pad]
    assert got == payload, "payload on the wire is not what stands in memory"
    assert int.from_bytes(b.ram.read(FACTS["cq_at"], 32), "little") == 0, "completed before the ACK"

    await b.rx.send(AxiStreamFrame(bytes.fromhex(FACTS["ack"])))
    for _ in range(500):
        await ClockCycles(dut.clk, 10)
        cqe = int.from_bytes(b.ram.read(FACTS["cq_at"], 32), "little")
        if cqe >> FACTS["phase"] & 1:
            break
    else:
        raise AssertionError("no completion")
    for f in FACTS["cqe"]:
        value = cqe >> f["offset"] & ((1 << f["width"]) - 1)
        assert value == f["value"], f"CQE field {f['name']} is {value:#x}, not {f['value']:#x}"
    assert b.tx.empty(), "a frame too many"


@cocotb.test()
async def a_write_goes_out_and_completes(dut):
    await write_and_complete(dut, 0)


@cocotb.test()
async def a_write_goes_out_and_completes_under_back_pressure(dut):
    await write_and_complete(dut, 0.3)
