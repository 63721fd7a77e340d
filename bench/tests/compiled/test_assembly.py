"""Instructions counted in assembly."""

from __future__ import annotations

from bancada.compiled.assembly import count

PTX = """
.version 8.7
.target sm_90a
.visible .entry kernel(
	.param .u64 .ptr .global .align 1 kernel_param_0
)
.reqntid 128
{
	.reg .pred 	%p<3>;
	ld.param.b64 	%rd1, [kernel_param_0];
	mov.u32 	%r1, %tid.x;
	setp.lt.s32 	%p1, %r1, 1;
	@%p1 bra 	$L__BB0_3;
	bra.uni 	$L__BB0_1;
$L__BB0_1:                              // %.lr.ph
	// begin inline asm
	mov.u32 %r2, %r1;
	@!%p2 ld.global.v4.b32 { %r3, %r4, %r5, %r6 }, [ %rd1 + 0 ];
	// end inline asm
	wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%f1, %f2}, {%r3, %r4}, %rd1, p, 1, 1, 0, 1;
	wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%f1, %f2}, {%r3, %r4}, %rd1, p, 1, 1, 0, 1;
	mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 { %f1 }, { %r1 }, { %r2 }, { %f1 };
	add.s32 	%r1, %r1, 1;
	@%p1 bra 	$L__BB0_1;
$L__BB0_2:
	add.s32 	%r1, %r1, 1;
	@%p1 bra 	$L__BB0_2;
$L__BB0_3:
	st.global.b32 	[%rd1], %r1;
	ret;
}
"""
AMDGCN = """
	.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
kernel:                                 ; @kernel
; %bb.0:
	s_load_dwordx2 s[0:1], s[4:5], 0x0
	v_lshlrev_b32_e32 v1, 2, v0
.LBB0_1:                                ; =>This Inner Loop Header: Depth=1
	ds_read_b128 v[2:5], v1
	v_mfma_f32_32x32x8_bf16_1k v[0:15], v[16:17], v[18:19], v[0:15]
	buffer_load_dwordx4 v[2:5], v1, s[0:3], 0 offen
	s_cbranch_scc1 .LBB0_1
; %bb.2:
	global_store_dword v1, v2, s[0:1]
	s_endpgm
	.section	.rodata,"a",@progbits
		.amdhsa_next_free_vgpr 128
amdhsa.kernels:
  - .agpr_count:     0
    .vgpr_count:     128
"""


def test_ptx_is_counted_without_moves_and_with_its_longest_loop() -> None:
    found = count(PTX, "cuda")
    assert found.instructions == 14
    assert found.loop == found.repeated == 6
    assert found.matrix == {"wgmma": 2, "mma.sync": 1}


def test_amds_assembly_is_counted_without_its_metadata() -> None:
    found = count(AMDGCN, "hip")
    assert (found.instructions, found.loop) == (8, 4)
    assert found.matrix == {"v_mfma": 1}


def test_a_loop_ends_with_any_branch_back_and_the_longest_counts() -> None:
    ptx = "$L__BB0_1:\n\tadd.s32 %r1;\n$L__BB0_2:\n\twgmma.fence.sync.aligned;\n\tbra.uni $L__BB0_{};\n"
    found = [count(ptx.format(label), "cuda") for label in (1, 2, 3)]
    assert [one.loop for one in found] == [3, 2, 0] and not found[0].matrix, "a fence multiplies nothing"
    amd = ".LBB0_1:\n\tflat_load_dword v1, v[2:3]\n\tscratch_store_dword off, v1, s0\n\ts_branch .LBB0_1\n"
    assert (count(amd, "hip").loop, count(amd, "hip").instructions) == (3, 3)


def test_without_a_loop_everything_is_run_once() -> None:
    straight = "\n".join(line for line in PTX.splitlines() if "bra" not in line)
    found = count(straight, "cuda")
    assert found.loop == 0 and found.repeated == found.instructions == 10
    assert count("", "cuda").instructions == 0
