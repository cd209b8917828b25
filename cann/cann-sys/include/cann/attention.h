/* Flash attention, and attention of an inference call. */
#ifndef BURN_CANN_ATTENTION_H
#define BURN_CANN_ATTENTION_H

#include "cann/op.h"

CANN_BEGIN

CANN_OP(aclnnFlashAttentionScore, const aclTensor *query, const aclTensor *key,
        const aclTensor *fill, const aclTensor *real_shift_or_null,
        const aclTensor *drop_mask_or_null, const aclTensor *padding_mask_or_null,
        const aclTensor *atten_mask_or_null, const aclIntArray *prefix_or_null, double scale_value,
        double keep_prob, int64_t pre_tokens, int64_t next_tokens, int64_t head_num,
        char *input_layout, int64_t inner_precise, int64_t sparse_mode,
        const aclTensor *softmax_max_out, const aclTensor *softmax_sum_out,
        const aclTensor *softmax_out_out, const aclTensor *attention_out_out);
CANN_OP(aclnnFlashAttentionScoreV2, const aclTensor *query, const aclTensor *key,
        const aclTensor *fill, const aclTensor *real_shift_or_null,
        const aclTensor *drop_mask_or_null, const aclTensor *padding_mask_or_null,
        const aclTensor *atten_mask_or_null, const aclIntArray *prefix_or_null,
        const aclIntArray *q_start_idx_or_null, const aclIntArray *kv_start_idx_or_null,
        double scale_value, double keep_prob, int64_t pre_tokens, int64_t next_tokens,
        int64_t head_num, char *input_layout, int64_t inner_precise, int64_t sparse_mode,
        int64_t pse_type, const aclTensor *softmax_max_out, const aclTensor *softmax_sum_out,
        const aclTensor *softmax_out_out, const aclTensor *attention_out_out);
CANN_OP(aclnnFlashAttentionScoreGrad, const aclTensor *query, const aclTensor *key_in,
        const aclTensor *fill, const aclTensor *dy, const aclTensor *pse_shift_or_null,
        const aclTensor *drop_mask_or_null, const aclTensor *padding_mask_or_null,
        const aclTensor *atten_mask_or_null, const aclTensor *softmax_max_or_null,
        const aclTensor *softmax_sum_or_null, const aclTensor *softmax_in_or_null,
        const aclTensor *attention_in_or_null, const aclIntArray *prefix_or_null,
        double scale_value, double keep_prob, int64_t pre_tokens, int64_t next_tokens,
        int64_t head_num, char *input_layout, int64_t inner_precise, int64_t sparse_mode,
        const aclTensor *dq_out, const aclTensor *dk_out, const aclTensor *dv_out,
        const aclTensor *dpse_out);
CANN_OP(aclnnFlashAttentionScoreGradV2, const aclTensor *query, const aclTensor *key_in,
        const aclTensor *fill, const aclTensor *dy, const aclTensor *pse_shift_or_null,
        const aclTensor *drop_mask_or_null, const aclTensor *padding_mask_or_null,
        const aclTensor *atten_mask_or_null, const aclTensor *softmax_max_or_null,
        const aclTensor *softmax_sum_or_null, const aclTensor *softmax_in_or_null,
        const aclTensor *attention_in_or_null, const aclIntArray *prefix_or_null,
        const aclIntArray *q_start_idx_or_null, const aclIntArray *kv_start_idx_or_null,
        double scale_value, double keep_prob, int64_t pre_tokens, int64_t next_tokens,
        int64_t head_num, char *input_layout, int64_t inner_precise, int64_t sparse_mode,
        int64_t pse_type, const aclTensor *dq_out, const aclTensor *dk_out, const aclTensor *dv_out,
        const aclTensor *dpse_out);
CANN_OP(aclnnFlashAttentionScoreV3, const aclTensor *query, const aclTensor *key, const aclTensor
        *fill, const aclTensor *real_shift_or_null, const aclTensor *drop_mask_or_null, const
        aclTensor *padding_mask_or_null, const aclTensor *atten_mask_or_null, const aclTensor
        *sink_or_null, const aclIntArray *prefix_or_null, const aclIntArray *q_start_idx_or_null,
        const aclIntArray *kv_start_idx_or_null, double scale_value, double keep_prob, int64_t
        pre_tokens, int64_t next_tokens, int64_t head_num, char *input_layout, int64_t
        inner_precise, int64_t sparse_mode, int64_t pse_type, const aclTensor *softmax_max_out,
        const aclTensor *softmax_sum_out, const aclTensor *softmax_out_out, const aclTensor
        *attention_out_out);
CANN_OP(aclnnFlashAttentionScoreGradV3, const aclTensor *query, const aclTensor *key_in, const
        aclTensor *fill, const aclTensor *dy, const aclTensor *pse_shift_or_null, const aclTensor
        *drop_mask_or_null, const aclTensor *padding_mask_or_null, const aclTensor
        *atten_mask_or_null, const aclTensor *softmax_max_or_null, const aclTensor
        *softmax_sum_or_null, const aclTensor *softmax_in_or_null, const aclTensor
        *attention_in_or_null, const aclTensor *sink_in_or_null, const aclIntArray *prefix_or_null,
        const aclIntArray *q_start_idx_or_null, const aclIntArray *kv_start_idx_or_null, double
        scale_value, double keep_prob, int64_t pre_tokens, int64_t next_tokens, int64_t head_num,
        char *input_layout, int64_t inner_precise, int64_t sparse_mode, int64_t pse_type, const
        aclTensor *dq_out, const aclTensor *dk_out, const aclTensor *dv_out, const aclTensor
        *dpse_out, const aclTensor *dsink_out);
CANN_OP(aclnnFlashAttentionVarLenScore, const aclTensor *query, const aclTensor *key,
        const aclTensor *fill, const aclTensor *real_shift_or_null,
        const aclTensor *drop_mask_or_null, const aclTensor *padding_mask_or_null,
        const aclTensor *atten_mask_or_null, const aclIntArray *prefix_or_null,
        const aclIntArray *actual_seq_qlen_or_null, const aclIntArray *actual_seq_kv_len_or_null,
        double scale_value, double keep_prob, int64_t pre_tokens, int64_t next_tokens,
        int64_t head_num, char *input_layout, int64_t inner_precise, int64_t sparse_mode,
        const aclTensor *softmax_max_out, const aclTensor *softmax_sum_out,
        const aclTensor *softmax_out_out, const aclTensor *attention_out_out);
CANN_OP(aclnnFlashAttentionVarLenScoreV2, const aclTensor *query, const aclTensor *key,
        const aclTensor *fill, const aclTensor *real_shift_or_null,
        const aclTensor *drop_mask_or_null, const aclTensor *padding_mask_or_null,
        const aclTensor *atten_mask_or_null, const aclIntArray *prefix_or_null,
        const aclIntArray *actual_seq_qlen_or_null, const aclIntArray *actual_seq_kv_len_or_null,
        const aclIntArray *q_start_idx_or_null, const aclIntArray *kv_start_idx_or_null,
        double scale_value, double keep_prob, int64_t pre_tokens, int64_t next_tokens,
        int64_t head_num, char *input_layout, int64_t inner_precise, int64_t sparse_mode,
        int64_t pse_type, const aclTensor *softmax_max_out, const aclTensor *softmax_sum_out,
        const aclTensor *softmax_out_out, const aclTensor *attention_out_out);
CANN_OP(aclnnFlashAttentionUnpaddingScoreGrad, const aclTensor *query, const aclTensor *key_in,
        const aclTensor *fill, const aclTensor *dy, const aclTensor *pse_shift_or_null,
        const aclTensor *drop_mask_or_null, const aclTensor *padding_mask_or_null,
        const aclTensor *atten_mask_or_null, const aclTensor *softmax_max_or_null,
        const aclTensor *softmax_sum_or_null, const aclTensor *softmax_in_or_null,
        const aclTensor *attention_in_or_null, const aclIntArray *prefix_or_null,
        const aclIntArray *actual_seq_qlen_or_null, const aclIntArray *actual_seq_kv_len_or_null,
        double scale_value, double keep_prob, int64_t pre_tokens, int64_t next_tokens,
        int64_t head_num, char *input_layout, int64_t inner_precise, int64_t sparse_mode,
        const aclTensor *dq_out, const aclTensor *dk_out, const aclTensor *dv_out,
        const aclTensor *dpse_out);
CANN_OP(aclnnFlashAttentionUnpaddingScoreGradV2, const aclTensor *query, const aclTensor *key_in,
        const aclTensor *fill, const aclTensor *dy, const aclTensor *pse_shift_or_null,
        const aclTensor *drop_mask_or_null, const aclTensor *padding_mask_or_null,
        const aclTensor *atten_mask_or_null, const aclTensor *softmax_max_or_null,
        const aclTensor *softmax_sum_or_null, const aclTensor *softmax_in_or_null,
        const aclTensor *attention_in_or_null, const aclIntArray *prefix_or_null,
        const aclIntArray *actual_seq_qlen_or_null, const aclIntArray *actual_seq_kv_len_or_null,
        const aclIntArray *q_start_idx_or_null, const aclIntArray *kv_start_idx_or_null,
        double scale_value, double keep_prob, int64_t pre_tokens, int64_t next_tokens,
        int64_t head_num, char *input_layout, int64_t inner_precise, int64_t sparse_mode,
        int64_t pse_type, const aclTensor *dq_out, const aclTensor *dk_out, const aclTensor *dv_out,
        const aclTensor *dpse_out);
CANN_OP(aclnnFusedInferAttentionScoreV3, const aclTensor *query, const aclTensorList *key,
        const aclTensorList *value, const aclTensor *pse_shift_or_null,
        const aclTensor *atten_mask_or_null, const aclIntArray *actual_seq_lengths_or_null,
        const aclIntArray *actual_seq_lengths_kv_or_null, const aclTensor *deq_scale1_or_null,
        const aclTensor *quant_scale1_or_null, const aclTensor *deq_scale2_or_null,
        const aclTensor *quant_scale2_or_null, const aclTensor *quant_offset2_or_null,
        const aclTensor *antiquant_scale_or_null, const aclTensor *antiquant_offset_or_null,
        const aclTensor *block_table_or_null, const aclTensor *query_padding_size_or_null,
        const aclTensor *kv_padding_size_or_null, const aclTensor *key_antiquant_scale_or_null,
        const aclTensor *key_antiquant_offset_or_null,
        const aclTensor *value_antiquant_scale_or_null,
        const aclTensor *value_antiquant_offset_or_null, const aclTensor *key_shared_prefix_or_null,
        const aclTensor *value_shared_prefix_or_null,
        const aclIntArray *actual_shared_prefix_len_or_null, const aclTensor *query_rope_or_null,
        const aclTensor *key_rope_or_null, const aclTensor *key_rope_antiquant_scale_or_null,
        int64_t num_heads, double scale_value, int64_t pre_tokens, int64_t next_tokens,
        char *input_layout, int64_t num_key_value_heads, int64_t sparse_mode, int64_t inner_precise,
        int64_t block_size, int64_t antiquant_mode, bool softmax_lse_flag,
        int64_t key_antiquant_mode, int64_t value_antiquant_mode, const aclTensor *attention_out,
        const aclTensor *softmax_lse);
CANN_OP(aclnnFusedInferAttentionScoreV4, const aclTensor *query, const aclTensorList *key,
        const aclTensorList *value, const aclTensor *pse_shift_or_null,
        const aclTensor *atten_mask_or_null, const aclIntArray *actual_seq_lengths_or_null,
        const aclIntArray *actual_seq_lengths_kv_or_null, const aclTensor *deq_scale1_or_null,
        const aclTensor *quant_scale1_or_null, const aclTensor *deq_scale2_or_null,
        const aclTensor *quant_scale2_or_null, const aclTensor *quant_offset2_or_null,
        const aclTensor *antiquant_scale_or_null, const aclTensor *antiquant_offset_or_null,
        const aclTensor *block_table_or_null, const aclTensor *query_padding_size_or_null,
        const aclTensor *kv_padding_size_or_null, const aclTensor *key_antiquant_scale_or_null,
        const aclTensor *key_antiquant_offset_or_null,
        const aclTensor *value_antiquant_scale_or_null,
        const aclTensor *value_antiquant_offset_or_null, const aclTensor *key_shared_prefix_or_null,
        const aclTensor *value_shared_prefix_or_null,
        const aclIntArray *actual_shared_prefix_len_or_null, const aclTensor *query_rope_or_null,
        const aclTensor *key_rope_or_null, const aclTensor *key_rope_antiquant_scale_or_null,
        const aclTensor *dequant_scale_query_or_null, const aclTensor *learnable_sink_or_null,
        int64_t num_heads, double scale_value, int64_t pre_tokens, int64_t next_tokens,
        char *input_layout, int64_t num_key_value_heads, int64_t sparse_mode, int64_t inner_precise,
        int64_t block_size, int64_t antiquant_mode, bool softmax_lse_flag,
        int64_t key_antiquant_mode, int64_t value_antiquant_mode, int64_t query_quant_mode,
        const aclTensor *attention_out, const aclTensor *softmax_lse);

CANN_END

#endif
