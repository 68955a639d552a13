//! Rules of the design (R1 to R21) and of the transport, each with the tests that would fail if it did not hold.
use super::Row;

/// A rule with its tests.
pub const fn row(what: &'static str, tests: &'static [&'static str]) -> Row {
    Row {
        what,
        tests,
        open: "",
    }
}
/// A rule without a test yet, and why.
pub const fn open(what: &'static str, open: &'static str) -> Row {
    Row {
        what,
        tests: &[],
        open,
    }
}

/// Rules of the design.
pub const DESIGN: &[Row] = &[
    row(
        "R1 streams take a beat a cycle",
        &[
            "a_word_passes_every_cycle",
            "it_keeps_order_under_any_back_pressure_and_moves_one_a_cycle",
            "the_busier_side_moves_a_beat_every_cycle",
            "the_first_beat_takes_four_cycles_and_the_others_follow_without_a_gap",
            "one_beat_frames_go_in_and_out_every_cycle",
            "frames_follow_each_other_without_gaps_from_any_payload_alignment",
        ],
    ),
    row(
        "R2 no frame before its payload is there",
        &[
            "a_response_has_an_epoch_of_its_own_and_its_failed_read_is_reported_with_its_psn",
            "a_failed_read_sends_no_frame_and_reports_its_wqe_when_the_epoch_is_current",
            "payloads_arrive_whole_and_in_order_at_every_alignment",
        ],
    ),
    row(
        "R3 receive buffers whole frames until the ICRC verdict",
        &[
            "overflow_drops_whole_frames_and_touches_no_other",
            "random_frames_come_back_whole_whatever_is_dropped_between_them",
            "ethernet_padding_of_any_length_is_no_part_of_the_packet",
            "one_flipped_covered_bit_is_dropped_and_counted",
        ],
    ),
    row(
        "R4 receive never waits for transmit",
        &[
            "reads_are_taken_while_transmit_stands_still",
            "all_qps_can_wait_at_once_while_nothing_leaves_and_requests_are_still_taken",
            "a_newer_acknowledgement_replaces_the_one_that_waits_and_qps_are_served_in_turn",
        ],
    ),
    row(
        "R5 no packet stalls behind another",
        &[
            "small_writes_pass_every_two_cycles",
            "a_wqe_that_is_still_being_fetched_holds_up_no_other_queue_pair",
        ],
    ),
    row(
        "R6 RNR only when the host's ring is empty; READ state in a pool",
        &[
            "the_last_sixteen_are_known_older_ones_are_forgotten",
            "an_empty_ring_gives_one_rnr_nak_then_silence_until_that_psn_comes_again",
            "with_receives_posted_at_any_time_every_message_arrives_once_and_in_order",
        ],
    ),
    row(
        "R7 retransmission in hardware, from the NAKed PSN",
        &[
            "a_sequence_nak_restarts_at_its_psn_and_acknowledges_what_stands_before",
            "lost_packets_and_lost_acks_are_made_good",
            "silence_is_answered_by_retries_after_the_timeout_and_then_by_an_error",
            "a_write_arrives_through_a_bad_wire",
            "a_lost_response_is_asked_for_again_from_exactly_there",
        ],
    ),
    row(
        "R8 stale epochs die",
        &[
            "a_stale_epoch_is_dropped_before_anything_is_read",
            "a_packet_that_waits_for_a_tag_sees_its_epoch_change",
            "a_packet_that_waits_dies_when_its_epoch_changes_and_is_counted_once",
            "an_answer_after_error_changes_nothing",
        ],
    ),
    row(
        "R9 commands drain what is in flight",
        &[
            "a_drain_waits_for_every_packet_whose_key_was_looked_up_and_begins_nothing",
            "drain_answers_when_all_older_reads_are_back_even_with_transmit_stopped",
            "drain_answers_when_all_older_writes_are_done",
            "an_operation_waits_for_the_writes_of_the_packets_before_it",
            "parked_packets_of_a_queue_pair_that_is_destroyed_are_dropped_before_the_operation_ends",
        ],
    ),
    row(
        "R10 responses in PSN order, window below 2^23",
        &[
            "order_holds_across_the_wrap",
            "the_psn_window_is_half_of_the_number_space",
            "no_more_is_outstanding_than_the_window_allows",
            "an_answer_waits_for_the_responses_of_the_reads_before_it",
            "many_reads_at_once_are_answered_in_order_and_acknowledgements_wait_for_them",
            "an_acknowledgement_that_passes_a_read_completes_what_is_before_it_and_repeats_the_read",
            "a_fatal_nak_that_passes_a_read_neither_completes_nor_loses_it",
            "reads_and_atomics_keep_their_limit_and_fences_wait_for_them",
        ],
    ),
    row(
        "R11 many reads and writes in flight, any alignment",
        &[
            "reads_move_a_beat_a_cycle_at_600_to_1000_ns",
            "up_to_128_writes_are_in_flight",
            "every_pair_of_alignments_keeps_every_byte",
            "sends_of_every_length_are_received_into_four_pieces",
            "messages_go_into_one_to_four_pieces_at_every_split",
        ],
    ),
    row(
        "R12 payload, then CQE, then EQE, then interrupt",
        &[
            "lines_of_both_rings_are_written_and_answered_in_order",
            "a_write_passes_buses_that_are_not_ours",
            "a_response_is_written_packet_by_packet_and_told_behind_the_write",
            "reads_and_atomics_keep_their_limit_and_fences_wait_for_them",
            "a_read_sees_the_write_before_it_and_a_fenced_write_what_the_read_before_it_brought",
            "the_key_is_dead_for_the_next_packet_and_the_completion_names_it",
            "a_payload_in_parts_lands_part_by_part_and_is_done_once",
        ],
    ),
    row(
        "R13 atomics are serialised",
        &[
            "atomics_of_many_queue_pairs_are_executed_once_and_answered_in_order_with_what_was_there",
            "an_atomic_that_is_asked_for_again_is_answered_with_the_kept_result_and_not_executed",
            "atomics_change_the_regions_words_once_and_duplicates_get_the_kept_answer",
            "atomics_have_their_effect_once_on_a_bad_wire_too",
            "an_atomic_whose_answer_is_lost_is_asked_for_again_and_executed_once",
        ],
    ),
    row(
        "R14 region check",
        &[
            "bytes_are_in_a_region_by_whole_numbers_without_wrap_of_2_to_64",
            "the_whole_key_the_domain_and_every_right_must_fit",
            "a_key_that_does_not_allow_it_is_a_remote_access_error_and_nothing_after_it_is_written",
            "a_region_that_goes_away_in_the_middle_of_a_message_is_not_written_any_more",
            "keys_of_a_region_change_when_its_number_is_used_again",
            "a_key_is_invalidated_once_by_its_own_domain_and_revived_with_another_low_byte",
            "a_region_that_nobody_outside_may_use_is_invalidated_only_from_inside",
            "a_message_takes_a_key_away_and_the_region_lives_on_under_the_next_one",
            "a_send_with_invalidate_takes_the_regions_key_away_or_ends_in_an_error",
        ],
    ),
    row(
        "R15 CQ and EQ: index, arming, overflow",
        &[
            "consumer_index_is_reported_before_the_queue_can_overflow",
            "events_are_taken_in_order_and_unknown_ones_are_errors",
            "an_armed_queue_tells_once_and_only_when_the_entry_is_in_memory",
            "a_full_queue_is_never_overwritten_dies_with_one_event_and_stops_those_who_complete_into_it",
            "a_consumer_index_that_was_not_reached_or_lies_behind_moves_nothing",
            "a_queue_armed_for_solicited_completions_wakes_for_those_and_for_errors_only",
        ],
    ),
    row(
        "R16 doorbells of another page are dropped",
        &["a_doorbell_reaches_its_queue_from_its_own_page_only"],
    ),
    row(
        "R17 one reply for each opcode, state and failed check",
        &[
            "reads_that_key_bounds_rights_or_depth_forbid_get_their_nak",
            "every_combination_that_can_occur_has_exactly_one_row",
            "each_state_takes_what_it_must",
            "a_broken_opcode_sequence_is_an_invalid_request",
            "responses_that_do_not_fit_fail_the_read",
            "a_nak_inside_a_read_fails_it",
            "a_local_key_that_is_gone_fails_the_read",
            "a_response_that_cannot_be_written_fails_the_read",
            "a_key_that_may_not_be_invalidated_ends_the_queue_pair_behind_its_acknowledgement",
            "a_gap_drops_the_message_it_is_in_and_the_next_one_is_taken",
            "what_may_not_be_done_is_dropped_and_its_receive_wqe_serves_the_next_message",
            "a_fault_of_the_hosts_own_ends_the_queue_pair_with_a_completion",
        ],
    ),
    Row {
        what: "R18 at most 10 levels of logic between registers",
        tests: &[],
        open: "measured by yosys: `cargo xtask lint` prints the depth of each module and fails beyond; the exceptions with their reasons are in hdl/lint/depth.txt",
    },
    row(
        "R19 simulated time only, deterministic",
        &[
            "one_seed_gives_one_run",
            "one_seed_gives_one_run_whatever_the_machine_does",
            "tasks_woken_by_one_edge_run_in_the_order_they_began_to_wait",
        ],
    ),
    row(
        "R20 a fault touches only its own QP and is counted",
        &[
            "a_queue_pair_killed_by_a_bad_rkey_costs_fifteen_others_nothing",
            "a_queue_pair_whose_retries_run_out_costs_fifteen_others_nothing",
            "a_queue_pair_whose_peer_is_never_ready_costs_fifteen_others_nothing",
            "a_queue_pair_whose_payload_cannot_be_read_costs_fifteen_others_nothing",
            "a_queue_pair_whose_payload_cannot_be_written_costs_fifteen_others_nothing",
            "a_queue_pair_whose_completion_queue_overflows_costs_fifteen_others_nothing",
            "a_queue_pair_with_a_malformed_wqe_costs_fifteen_others_nothing",
            "bad_wqes_fail_in_their_turn_and_the_rest_is_flushed",
            "a_failed_payload_write_is_a_remote_operational_error",
            "packets_are_dropped_by_reason_and_free_their_cells",
        ],
    ),
    row(
        "R21 checks before any state",
        &[
            "each_wrong_field_is_counted_under_its_own_reason",
            "frames_cut_anywhere_are_dropped_by_length",
            "what_routers_may_change_does_not_matter",
            "garbage_is_dropped_as_the_software_path_says_and_hangs_nothing",
        ],
    ),
];

/// Rules of the reliable transport.
pub const TRANSPORT: &[Row] = &[
    row(
        "SEND and WRITE of every length and alignment at every PMTU",
        &[
            "every_length_and_alignment_arrives_at_pmtu_256",
            "every_length_and_alignment_arrives_at_pmtu_512",
            "every_length_and_alignment_arrives_at_pmtu_1024",
            "every_length_and_alignment_arrives_at_pmtu_2048",
            "every_length_and_alignment_arrives_at_pmtu_4096",
        ],
    ),
    row(
        "immediate data with SEND and WRITE",
        &[
            "immediate_data_comes_with_a_send_and_with_a_write_of_one_packet_or_several",
            "immediate_data_arrives_with_the_completion",
        ],
    ),
    row(
        "SEND with invalidate takes a key away or ends in an error",
        &[
            "a_send_with_invalidate_takes_the_regions_key_away_or_ends_in_an_error",
            "the_key_is_dead_for_the_next_packet_and_the_completion_names_it",
        ],
    ),
    row(
        "local invalidate: after all before it, before all behind it, complete when nothing uses the key",
        &[
            "a_local_invalidate_waits_for_all_before_it_and_all_behind_it_wait_for_what_uses_its_key",
            "local_invalidates_among_losses_take_each_key_away_once_and_give_each_once",
            "a_local_invalidate_that_cannot_be_done_fails_in_its_turn",
            "a_drained_queue_finishes_the_key_that_it_has_begun_and_begins_no_other",
            "a_queue_pair_made_anew_does_not_hear_of_the_key_of_its_earlier_life",
            "a_local_invalidate_ends_all_use_of_its_key_before_it_completes",
        ],
    ),
    row(
        "end-to-end credits, finite and without limit",
        &[
            "no_more_messages_that_take_a_receive_are_sent_than_the_peer_has_receives",
            "writes_need_no_credit",
        ],
    ),
    row(
        "unreliable connections send, complete when sent, and go on after an error",
        &[
            "messages_of_unreliable_connections_leave_once_and_complete_in_order",
            "a_failed_send_of_an_unreliable_connection_flushes_and_is_gone_on_behind",
            "what_is_posted_while_a_failure_is_told_is_flushed_too",
            "messages_of_an_unreliable_connection_arrive_and_a_failed_send_does_not_end_it",
            "messages_of_an_unreliable_connection_arrive_whole_or_not_at_all",
            "packets_of_unreliable_connections_that_would_ask_tell_once_that_they_have_left",
        ],
    ),
    row(
        "fast re-keying of a region, by command and by the send queue",
        &[
            "a_region_with_a_new_key_is_written_under_that_one_and_under_no_other",
            "a_region_without_a_key_gets_one_from_its_own_domain_once",
            "a_key_is_made_valid_between_what_is_before_and_what_is_behind_it",
            "a_queue_gives_a_region_its_next_key_between_two_messages",
        ],
    ),
    row(
        "inline data, pushed and through the ring",
        &["inline_messages_arrive_pushed_and_through_the_ring"],
    ),
    row(
        "READ and atomics as requester, of every length and alignment, 16 at once",
        &[
            "reads_of_every_length_and_alignment_arrive_at_pmtu_512",
            "reads_and_atomics_keep_their_limit_and_fences_wait_for_them",
            "atomics_bring_the_old_value_and_have_their_effect_once",
        ],
    ),
    row(
        "READ into up to four pieces",
        &[
            "a_read_into_several_pieces_fills_each_of_them_and_completes_once",
            "a_read_into_several_pieces_fails_once_whichever_of_them_is_wrong",
        ],
    ),
    row(
        "a READ is repeated from the right PSN",
        &[
            "a_lost_response_is_asked_for_again_from_exactly_there",
            "the_last_response_lost_shows_by_the_next_answer",
            "reads_arrive_through_a_bad_wire",
        ],
    ),
    row(
        "READ responses of any length, up to 16 at once, in order",
        &[
            "reads_of_every_length_and_alignment_bring_the_regions_bytes",
            "many_reads_at_once_are_answered_in_order_and_acknowledgements_wait_for_them",
        ],
    ),
    row(
        "a repeated READ is answered again from its PSN on",
        &[
            "repeated_reads_are_answered_again_from_their_psn_on_and_forgotten_ones_are_not",
            "a_response_that_was_lost_in_part_is_sent_again_from_there",
        ],
    ),
    row(
        "atomics happen once; duplicates get the stored result",
        &["atomics_change_the_regions_words_once_and_duplicates_get_the_kept_answer"],
    ),
    row(
        "more READs than the responder's depth are an invalid request",
        &["more_reads_than_the_queue_pair_takes_are_an_invalid_request"],
    ),
    row(
        "ACK timeout of 4.096 us * 2^t, restarted by progress; t = 0 never",
        &[
            "a_lost_acknowledgement_is_asked_for_again_after_the_timeout",
            "without_a_timeout_silence_lasts",
            "each_acknowledgement_starts_the_timer_anew",
            "an_acknowledgement_of_nothing_new_leaves_the_timer_alone",
        ],
    ),
    row(
        "retries run out",
        &[
            "a_deaf_responder_exhausts_the_retries",
            "silence_is_answered_by_retries_after_the_timeout_and_then_by_an_error",
        ],
    ),
    row(
        "RNR: never early, and retries run out",
        &[
            "an_rnr_wait_is_never_shorter_than_the_peer_asks_for",
            "a_responder_that_is_not_ready_is_left_alone_as_long_as_it_asks",
            "a_responder_never_ready_exhausts_the_rnr_retries",
            "receiver_not_ready_times_and_credits_are_those_of_the_tables",
        ],
    ),
    row(
        "silence after an RNR NAK until the expected PSN",
        &["an_empty_ring_gives_one_rnr_nak_then_silence_until_that_psn_comes_again"],
    ),
    row(
        "go-back-N from the NAKed PSN",
        &[
            "a_sequence_nak_makes_it_go_back_to_exactly_that_packet",
            "a_sequence_nak_restarts_at_its_psn_and_acknowledges_what_stands_before",
        ],
    ),
    row(
        "one NAK for each gap",
        &[
            "a_gap_gives_one_nak_until_it_closes",
            "a_read_ahead_of_its_turn_gets_one_nak",
        ],
    ),
    row(
        "duplicates are acknowledged and not executed",
        &["a_duplicate_is_acknowledged_with_the_latest_psn_and_not_executed_again"],
    ),
    row(
        "PSN and MSN wrap",
        &[
            "order_holds_across_the_wrap",
            "the_psn_window_is_half_of_the_number_space",
            "a_queried_queue_pair_tells_its_psns_indices_and_retries_across_the_wrap",
        ],
    ),
    row(
        "AckReq and coalescing",
        &[
            "a_middle_packet_is_acknowledged_only_when_it_asks",
            "a_newer_acknowledgement_replaces_the_one_that_waits_and_qps_are_served_in_turn",
        ],
    ),
    row(
        "states and transitions",
        &[
            "transitions_are_those_of_the_specification",
            "each_transition_needs_its_attributes_and_takes_no_others",
            "an_attribute_counts_only_when_its_bit_says_so_and_must_be_possible_then",
            "each_state_takes_what_it_must",
            "reset_forgets",
        ],
    ),
    row(
        "errors flush everything outstanding once and in order",
        &[
            "in_error_everything_posted_is_flushed_once_and_in_order_also_later",
            "an_error_from_elsewhere_flushes_what_is_posted_and_what_comes_later",
            "a_second_error_flushes_nothing_again",
            "bad_wqes_fail_in_their_turn_and_the_rest_is_flushed",
        ],
    ),
    row(
        "access flags of the queue pair (0x61) and rights of the key (0x62)",
        &[
            "without_the_queue_pairs_right_a_read_is_an_invalid_request_without_the_keys_an_access_error",
        ],
    ),
    row(
        "malformed WQEs end in an error completion",
        &[
            "bad_wqes_fail_in_their_turn_and_the_rest_is_flushed",
            "a_queue_pair_with_a_malformed_wqe_costs_fifteen_others_nothing",
        ],
    ),
    row(
        "solicited events and the first packet of a connection",
        &[
            "a_queue_armed_for_solicited_completions_wakes_for_those_and_for_errors_only",
            "the_first_packet_of_a_connection_is_told_once_and_only_in_rtr",
        ],
    ),
    row(
        "receives of up to four pieces",
        &[
            "a_message_fills_the_pieces_of_its_receive_in_order",
            "messages_go_into_one_to_four_pieces_at_every_split",
        ],
    ),
    row(
        "shared receive queues: order, nobody holds up another, RNR, errors, limit and last-WQE events",
        &[
            "queue_pairs_take_the_wqes_of_a_shared_queue_in_order",
            "interleaved_messages_of_many_queue_pairs_land_in_wqes_of_their_own",
            "a_queue_pair_in_the_middle_of_a_message_holds_up_no_other",
            "of_two_messages_for_one_wqe_one_waits_for_the_next",
            "a_queue_pair_that_fails_completes_what_it_took_and_leaves_the_rest",
            "the_limit_is_told_once_and_at_once_when_too_few_are_left",
            "doorbells_for_what_is_not_there_change_nothing",
            "four_connections_share_one_queue_of_receives_that_is_too_short_for_all",
            "a_limit_is_told_and_a_failed_connection_leaves_the_queue_to_the_others",
        ],
    ),
    row(
        "a flush stops no operation of another queue pair",
        &["operations_of_other_queue_pairs_pass_a_flush_that_is_under_way"],
    ),
    row(
        "sends of up to four pieces, and gone on with from any packet",
        &[
            "pieces_of_a_packet_are_joined_at_every_length_and_alignment",
            "a_failed_piece_takes_its_whole_packet_along_and_a_new_epoch_all_of_its_pieces",
            "a_message_waits_for_its_second_block_and_lets_others_go_on",
            "a_bad_second_block_fails_its_message",
            "messages_of_several_pieces_arrive_at_every_split",
            "a_gathered_message_is_gone_on_with_from_any_packet",
        ],
    ),
    row(
        "SQD finishes what is begun, says so once, and begins nothing",
        &[
            "sqd_finishes_what_is_begun_says_so_once_and_begins_nothing",
            "a_drained_send_queue_says_so_waits_and_is_taken_up_again",
            "a_send_queue_drains_on_a_wire_that_loses_frames",
        ],
    ),
    row(
        "loopback inside the NIC, beside traffic of the wire",
        &[
            "queue_pairs_of_one_nic_talk_without_the_wire",
            "loopback_and_wire_traffic_share_a_nic",
            "frames_of_both_arrive_whole_and_in_order_and_none_is_lost",
            "a_wire_without_gaps_loses_nothing_and_own_frames_are_lost_as_a_whole_after_a_wait",
        ],
    ),
    row(
        "mixed traffic through faults, in every state, against a model",
        &[
            "random_traffic_of_64_queue_pairs_with_loss_and_duplicates",
            "mixed_messages_through_faults_arrive_complete_and_in_order_as_the_model_says",
        ],
    ),
    row(
        "two WRITEs to one place keep their order",
        &["payloads_for_one_place_land_in_their_order"],
    ),
    row(
        "noise, mutated frames, WQEs, doorbells and register writes harm nobody",
        &[
            "a_queue_pair_among_random_and_mutated_frames_is_served_and_other_memory_is_untouched",
            "random_wqes_doorbells_pushes_and_register_writes_harm_no_other_queue_pair",
        ],
    ),
    row(
        "the device hears nothing of a late packet of an earlier life",
        &["a_queue_pair_made_anew_knows_nothing_of_its_earlier_life"],
    ),
];
