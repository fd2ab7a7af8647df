"""Tests that `pytest --device` leaves out, by file and function, and why.

A test belongs here if it is about the host. One that fails on a device for another reason is a bug.
"""

REPLICAS = {
    "test_attention": ("test_dropout_does_not_depend_on_the_split",),
    "test_bucket": (
        "test_a_branch_may_be_left_out_around_other_collectives",
        "test_parameters_used_by_some_replicas_or_by_none",
    ),
    "test_capture_edges": ("test_weighted_losses_and_frozen_parts_in_replicas",),
    "test_denominators": (
        "test_all_targets_ignored_is_nan_as_in_one_mean",
        "test_known_and_exchanged_denominators_agree",
        "test_the_evaluated_loss_is_that_of_all_rows_at_once",
    ),
    "test_launch": ("test_an_optimiser_may_have_groups_and_leave_parameters_out",),
    "test_recurrent": ("test_dropout_between_layers_does_not_depend_on_the_split",),
    "test_scheduler": (
        "test_a_replica_with_ignored_labels_only",
        "test_batches_of_tuples_and_dicts",
        "test_bytes_depend_on_the_number_of_replicas_alone",
        "test_emulated_devices",
        "test_evaluate_counts_every_row_once",
        "test_first_gradient_in_float32",
        "test_large_buckets_are_reduced_in_slices",
        "test_layers_that_look_beyond_a_row",
        "test_learning_rates",
        "test_losses",
        "test_nothing_piles_up",
        "test_one_replica_is_the_plain_loop",
        "test_run_is_a_loop_of_calls",
        "test_twenty_steps",
    ),
}
"""They launch replicas on CPU devices, which share memory with what the test made."""

NUMPY = {
    "test_autograd": ("test_matrix_product_with_arrays_on_either_side", "test_promotion"),
    "test_capture": ("test_a_replayed_step_equals_the_eager_one_byte_for_byte",),
    "test_indexing": ("test_places_along_an_axis",),
    "test_loss_values": ("test_reductions_agree", "test_values_and_derivatives"),
    "test_losses": (
        "test_any_split_gives_the_loss_and_gradients_of_one_replica",
        "test_cross_entropy_has_pytorchs_values",
        "test_other_forms_of_cross_entropy_have_pytorchs_values",
        "test_regression_losses_have_pytorchs_values",
    ),
    "test_nn_layers": ("test_linear_takes_any_number_of_axes",),
    "test_nn_normalize": ("test_batch_norm_has_pytorchs_values",),
    "test_pooling": (
        "test_adaptive_pooling_is_its_definition",
        "test_max_pooling_is_its_definition",
    ),
    "test_reductions": ("test_comparisons_are_element_by_element",),
    "test_resize": ("test_grid_sample_has_pytorchs_values",),
}
"""They mix tensors with NumPy arrays, or compare with formulas of NumPy on `.array`."""

MEMORY = {
    "test_autograd": ("test_training_leaves_no_cycles_and_no_memory",),
    "test_capture": ("test_parameters_that_move_are_recorded_anew",),
    "test_fusion": (
        "test_an_array_in_another_layout_than_foreseen",
        "test_the_formula_by_numpy_is_the_same",
        "test_what_stays_apart",
    ),
    "test_inplace": (
        "test_arrays_and_numpys_functions",
        "test_the_array_of_a_parameter_may_be_assigned",
    ),
    "test_tensor": (
        "test_copying_and_pickling_keep_the_kind",
        "test_numpy_shares_and_refuses_graphs",
        "test_tensor_copies_and_from_numpy_shares",
        "test_to_and_casts",
    ),
}
"""They are about host memory: who shares it, who may assign it, how it lies."""

TEXT = {
    "test_capture": ("test_an_error_in_a_replay_says_where",),
    "test_losses": ("test_wrong_targets_are_named",),
    "test_tensor": ("test_printing",),
}
"""They compare a text in which the device is named, or which a kernel words differently."""

ROUNDING = {
    "test_fusion": ("test_every_element_wise_op", "test_layouts"),
    "test_recurrent": ("test_rows_do_not_depend_on_how_many_there_are",),
}
"""They ask for the last bits of NumPy's own functions, or of the CPU's products."""

HOST_ONLY = {}
for group in (REPLICAS, NUMPY, MEMORY, TEXT, ROUNDING):
    for file, names in group.items():
        HOST_ONLY.setdefault(file, set()).update(names)
