//! Faults that other implementations shipped, and the tests that would have found them.
use super::Row;
use super::tables::{open, row};

/// Faults that other implementations shipped.
pub const FAULTS: &[Row] = &[
    row(
        "wire: the ICRC covers pad bytes",
        &[
            "scapy_frames_of_every_payload_length_and_pad_are_accepted",
            "all_opcodes_lengths_and_pads_under_back_pressure_equal_scapys_frames",
        ],
    ),
    row(
        "wire: the ICRC is stored little-endian",
        &[
            "captured_frames_get_the_icrc_they_had",
            "both_icrc_routines_agree_with_every_captured_frame",
        ],
    ),
    row(
        "wire: an undefined opcode is dropped before any arithmetic",
        &[
            "each_wrong_field_is_counted_under_its_own_reason",
            "garbage_is_dropped_as_the_software_path_says_and_hangs_nothing",
        ],
    ),
    row(
        "wire: reserved BTH bits are 0 and their neighbours whole",
        &["all_opcodes_lengths_and_pads_under_back_pressure_equal_scapys_frames"],
    ),
    row(
        "requester: a later ACK does not skip an unanswered READ",
        &["an_acknowledgement_that_passes_a_read_completes_what_is_before_it_and_repeats_the_read"],
    ),
    row(
        "requester: the ACK timer does not restart sending during an RNR wait",
        &[
            "an_rnr_wait_is_never_shorter_than_the_peer_asks_for",
            "a_responder_that_is_not_ready_is_left_alone_as_long_as_it_asks",
        ],
    ),
    row(
        "requester: an RNR retry count of 7 is without end, and only that one",
        &[
            "seven_rnr_retries_never_end_and_six_do",
            "as_many_retries_as_agreed_follow_the_first_try_seven_too",
        ],
    ),
    row(
        "requester: a retry restores the whole cursor",
        &[
            "a_sequence_nak_makes_it_go_back_to_exactly_that_packet",
            "lost_packets_and_lost_acks_are_made_good",
            "a_gathered_message_is_gone_on_with_from_any_packet",
            "mixed_messages_through_faults_arrive_complete_and_in_order_as_the_model_says",
        ],
    ),
    row(
        "requester: a resent message is cut at the PMTU",
        &[
            "a_write_arrives_through_a_bad_wire",
            "a_lost_packet_is_found_by_the_responder_and_sent_again",
        ],
    ),
    row(
        "responder: MSN grows once for each message",
        &["a_write_of_every_shape_lands_where_its_address_says_and_is_acknowledged"],
    ),
    row(
        "responder: address plus length does not wrap 2^64",
        &[
            "bytes_are_in_a_region_by_whole_numbers_without_wrap_of_2_to_64",
            "a_key_that_does_not_allow_it_is_a_remote_access_error_and_nothing_after_it_is_written",
        ],
    ),
    row(
        "responder: payload length against the RETH and the PMTU",
        &["a_length_that_does_not_fit_is_an_invalid_request"],
    ),
    row(
        "responder: errors that use no receive WQE are answered",
        &["a_key_that_does_not_allow_it_is_a_remote_access_error_and_nothing_after_it_is_written"],
    ),
    row(
        "responder: an ordinary region is not invalidated from outside",
        &[
            "a_region_that_nobody_outside_may_use_is_invalidated_only_from_inside",
            "a_key_that_may_not_be_invalidated_ends_the_queue_pair_behind_its_acknowledgement",
        ],
    ),
    row(
        "completion: byte_len of a WRITE with immediate is the bytes written",
        &["immediate_data_comes_with_a_send_and_with_a_write_of_one_packet_or_several"],
    ),
    row(
        "completion: a violation of a key raises an asynchronous event",
        &["a_wrong_rkey_harms_one_queue_pair_only"],
    ),
    row(
        "completion: a failed WQE completes once",
        &[
            "bad_wqes_fail_in_their_turn_and_the_rest_is_flushed",
            "of_bad_wqes_behind_each_other_the_first_fails_and_the_others_are_flushed",
        ],
    ),
    row(
        "completion: a fence waits only for READs and atomics",
        &[
            "a_fence_waits_for_reads_and_atomics_and_not_for_writes",
            "a_read_sees_the_write_before_it_and_a_fenced_write_what_the_read_before_it_brought",
        ],
    ),
    row(
        "driver: the producer index is not visible before the entry",
        &["posting_and_retiring_at_the_same_time_never_mix_up_entries"],
    ),
    row(
        "driver: every field is written again after the ring wraps",
        &["every_field_of_an_entry_is_written_again_after_the_ring_wraps"],
    ),
    row(
        "driver: an empty poll does not move the consumer index",
        &[
            "consumer_index_is_reported_before_the_queue_can_overflow",
            "rings_and_phases_survive_many_laps_and_the_wrap_of_the_16_bit_index",
        ],
    ),
    row(
        "host: impossible doorbells are refused and counted",
        &[
            "impossible_doorbells_are_refused_and_pushes_fall_back_to_the_ring",
            "an_impossible_doorbell_changes_nothing",
            "a_doorbell_that_a_later_push_overtakes_is_no_wrong_one",
        ],
    ),
    row(
        "host: the MSI-X table is where the capability says",
        &["capabilities_lead_from_one_to_the_next_and_end"],
    ),
    open(
        "UD: the IPv4 header stands at bytes 20 to 39 of the GRH area",
        "not built: unreliable datagrams are dropped and counted",
    ),
    row(
        "congestion: BTH marks are no trigger, a CE mark changes no answer",
        &["what_routers_may_change_does_not_matter"],
    ),
    row(
        "a re-created queue pair keeps nothing of its PSNs",
        &[
            "a_queue_pair_made_anew_knows_nothing_of_its_earlier_life",
            "each_state_takes_what_it_must",
            "reset_forgets",
            "a_queue_pair_made_anew_does_not_hear_of_the_key_of_its_earlier_life",
        ],
    ),
    row(
        "retries that ran out have their own status",
        &["a_deaf_responder_exhausts_the_retries"],
    ),
    row(
        "the offset in the first page of a region is kept",
        &["every_length_and_alignment_arrives_at_pmtu_4096"],
    ),
    open(
        "SL bits do not leak into the VLAN ID",
        "not built: frames with a VLAN tag are dropped and counted",
    ),
    row(
        "every stall is visible in counters",
        &[
            "no_more_is_outstanding_than_the_window_allows",
            "no_pulse_and_no_byte_is_lost_at_any_rate_and_carries_go_through",
        ],
    ),
    row(
        "the interface lives on after any packet",
        &["garbage_is_dropped_as_the_software_path_says_and_hangs_nothing"],
    ),
    row(
        "retransmission in hardware is tested, with a peer that is not ours",
        &[
            "a_lost_packet_is_found_by_the_responder_and_sent_again",
            "a_write_arrives_through_a_bad_wire",
        ],
    ),
];
