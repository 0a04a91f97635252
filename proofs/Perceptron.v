(* Lemmas 2 and 2' of docs/theory/: what all learners of the perceptron's kind have in common. *)
From Perceptrank Require Export Sums.

(* The bound "with the constant C": K = U^2 C. *)
Definition sharp_bound (K L : R) : R := L + K / 2 + sqrt (K * L + K * K / 4).

(* c_i of SLAM: the largest of 0 and margin + s_j - s_i over the documents j graded below i. *)
Definition cost (m : nat) (s : nat -> R) (grade : nat -> nat) (margin : R) (i : nat) : R :=
  maxn m (fun j => if grade j <? grade i then margin + s j - s i else 0).

Definition slam (m : nat) (s : nat -> R) (grade : nat -> nat) (v : nat -> R) (margin : R) : R :=
  sum m (fun i => v i * cost m s grade margin i).

(* A learner after T rounds: which documents it saw, how they were graded and weighted, what it moved. *)
Record run := Run {
  features : nat;
  documents : nat -> nat;          (* of a round *)
  X : nat -> nat -> vec;           (* of a round and a document *)
  grade : nat -> nat -> nat;
  v : nat -> nat -> R;
  active : nat -> nat -> bool;
  q : nat -> nat -> nat -> R;      (* of a round, the better and the worse document *)
  eta : R;
  w : nat -> vec                   (* before a round *)
}.

Section Rounds.
Variables (r : run) (T : nat).
Notation d := (features r).
Notation dot := (dot (features r)).
Notation norm := (norm (features r)).

Definition scores (t : nat) (u : vec) (i : nat) : R := dot u (X r t i).

(* -z_t *)
Definition step (t : nat) : vec := fun k =>
  sum (documents r t) (fun i => (if active r t i then v r t i else 0) *
    sum (documents r t) (fun j => q r t i j * vminus (X r t i) (X r t j) k)).

(* V_t *)
Definition mass (t : nat) : R := sum (documents r t) (fun i => if active r t i then v r t i else 0).

(* f_t(u), and L: the sum over rounds with an update. *)
Definition surrogate (t : nat) (u : vec) : R := slam (documents r t) (scores t u) (grade r t) (v r t) 1.
Definition total_surrogate (u : vec) : R := sum T (fun t => if Rlt_dec 0 (mass t) then surrogate t u else 0).
Definition total_mass : R := sum T mass.

(* What is asked of weights, distributions and updates. *)
Definition follows_the_rule : Prop :=
  0 < eta r
  /\ (forall k, (k < d)%nat -> w r 0%nat k = 0)
  /\ (forall t k, (t < T)%nat -> (k < d)%nat -> w r (S t) k = w r t k + eta r * step t k)
  /\ (forall t i, (t < T)%nat -> (i < documents r t)%nat -> 0 <= v r t i)
  /\ (forall t, (t < T)%nat -> sum (documents r t) (v r t) <= 1)
  /\ (forall t i, (t < T)%nat -> (i < documents r t)%nat -> active r t i = true ->
      sum (documents r t) (q r t i) = 1
      /\ forall j, (j < documents r t)%nat -> 0 <= q r t i j
         /\ (0 < q r t i j -> (grade r t j < grade r t i)%nat)).

(* D is at least the distance of any two differently graded documents of a query. *)
Definition within_diameter (D : R) : Prop :=
  0 <= D /\ forall t i j, (t < T)%nat -> (i < documents r t)%nat -> (j < documents r t)%nat ->
  (grade r t j < grade r t i)%nat -> norm (vminus (X r t i) (X r t j)) <= D.

Definition has_margin (u : vec) (gamma : R) : Prop :=
  forall t i j, (t < T)%nat -> (i < documents r t)%nat -> (j < documents r t)%nat ->
  (grade r t j < grade r t i)%nat -> gamma <= dot u (vminus (X r t i) (X r t j)).

Hypothesis rule : follows_the_rule.

Lemma active_weight_nonneg t i : (t < T)%nat -> (i < documents r t)%nat -> 0 <= if active r t i then v r t i else 0.
Proof. intros HT HI. destruct rule as (_&_&_&Hv&_). destruct (active r t i); [auto|lra]. Qed.

Lemma mass_nonneg t : (t < T)%nat -> 0 <= mass t.
Proof. intro HT. apply sum_nonneg; intros. now apply active_weight_nonneg. Qed.

Lemma mass_at_most_one t : (t < T)%nat -> mass t <= 1.
Proof.
  intro HT. destruct rule as (_&_&_&Hv&Hs&_). eapply Rle_trans; [|apply (Hs t HT)].
  apply sum_le; intros i HI. specialize (Hv t i HT HI). destruct (active r t i); lra.
Qed.

Lemma total_mass_nonneg : 0 <= total_mass.
Proof. apply sum_nonneg; intros. now apply mass_nonneg. Qed.

Lemma surrogate_nonneg t u : (t < T)%nat -> 0 <= surrogate t u.
Proof.
  intro HT. apply sum_nonneg; intros i HI. destruct rule as (_&_&_&Hv&_).
  apply Rmult_le_pos; [auto|apply maxn_nonneg].
Qed.

Lemma total_surrogate_nonneg u : 0 <= total_surrogate u.
Proof. apply sum_nonneg; intros t HT. destruct (Rlt_dec _ _); [now apply surrogate_nonneg|lra]. Qed.

Lemma dot_step t u : dot (step t) u =
  sum (documents r t) (fun i => (if active r t i then v r t i else 0) *
    sum (documents r t) (fun j => q r t i j * dot (vminus (X r t i) (X r t j)) u)).
Proof.
  unfold step. rewrite dot_sum. apply sum_ext; intros i HI. f_equal. now rewrite dot_sum.
Qed.

Lemma step_gains t u : (t < T)%nat ->
  mass t - (if Rlt_dec 0 (mass t) then surrogate t u else 0) <= dot (step t) u.
Proof.
  intro HT. destruct rule as (_&_&_&Hv&_&Hq). rewrite dot_step. destruct (Rlt_dec 0 (mass t)) as [_|N].
  - unfold mass, surrogate, slam. rewrite <- sum_minus. apply sum_le; intros i HI.
    specialize (Hv t i HT HI). specialize (Hq t i HT HI).
    pose proof (maxn_nonneg (documents r t)
      (fun j => if grade r t j <? grade r t i then 1 + scores t u j - scores t u i else 0)) as C0.
    fold (cost (documents r t) (scores t u) (grade r t) 1 i) in C0.
    set (c := cost _ _ _ _ _) in *.
    destruct (active r t i); [|nra]. destruct Hq as (Q1 & Q); [easy|].
    assert (1 - c <= sum (documents r t) (fun j => q r t i j * dot (vminus (X r t i) (X r t j)) u)).
    { replace (1 - c) with (sum (documents r t) (fun j => (1 - c) * q r t i j)) by (rewrite sum_scal, Q1; lra).
      apply sum_le; intros j HJ. destruct (Q j HJ) as (P & G). destruct P as [P|Z]; [|rewrite <- Z; lra].
      rewrite Rmult_comm. apply Rmult_le_compat_l; [lra|].
      assert (H : 1 + scores t u j - scores t u i <= c).
      { unfold c, cost.
        pose proof (maxn_ge (documents r t)
          (fun j => if grade r t j <? grade r t i then 1 + scores t u j - scores t u i else 0) j HJ) as H.
        cbv beta in H. apply G, Nat.ltb_lt in P. now rewrite P in H. }
      unfold scores in H. rewrite dot_minus, !(dot_comm _ (X r t _)). lra. }
    nra.
  - assert (Z : mass t = 0) by (pose proof (mass_nonneg t HT); lra). rewrite Z.
    apply Req_le. symmetry. rewrite (sum_ext _ _ (fun _ => 0)); [rewrite sum_zero; lra|].
    intros i HI. pose proof (active_weight_nonneg t i HT HI).
    pose proof (sum_term (documents r t) (fun i => if active r t i then v r t i else 0) i
      (fun i => active_weight_nonneg t i HT) HI) as H1. fold (mass t) in H1. cbv beta in H1.
    replace (if active r t i then v r t i else 0) with 0 by lra. lra.
Qed.

(* Lemma 2 (a) *)
Theorem lemma_2a u : eta r * (total_mass - total_surrogate u) <= dot (w r T) u.
Proof.
  destruct rule as (E&W0&Wt&_).
  assert (H : forall n, (n <= T)%nat ->
    eta r * (sum n mass - sum n (fun t => if Rlt_dec 0 (mass t) then surrogate t u else 0)) <= dot (w r n) u).
  { induction n; intro N; simpl sum.
    - unfold Sums.dot. rewrite (sum_ext _ _ (fun _ => 0)); [rewrite sum_zero; lra|].
      intros; rewrite W0 by easy; lra.
    - assert (HT : (n < T)%nat) by lia. specialize (IHn ltac:(lia)).
      rewrite (dot_ext _ (w r (S n)) (fun k => 1 * w r n k + eta r * step n k) u u) by
        (try easy; intros; rewrite Wt by easy; lra).
      rewrite dot_linear. pose proof (step_gains n u HT). nra. }
  now apply H.
Qed.

(* Lemma 2 (b) *)
Theorem lemma_2b D t : within_diameter D -> (t < T)%nat -> norm (step t) <= D * mass t.
Proof.
  intros (D0 & HD) HT. destruct rule as (_&_&_&_&_&Hq).
  unfold step. eapply Rle_trans; [apply norm_sum; intros; now apply active_weight_nonneg|].
  unfold mass. rewrite <- sum_scal. apply sum_le; intros i HI. rewrite (Rmult_comm D).
  pose proof (active_weight_nonneg t i HT HI). specialize (Hq t i HT HI).
  destruct (active r t i); [|lra]. destruct Hq as (Q1 & Q); [easy|].
  apply Rmult_le_compat_l; [easy|].
  eapply Rle_trans; [apply norm_sum; intros j HJ; apply (Q j HJ)|].
  replace D with (sum (documents r t) (fun j => D * q r t i j)) by (rewrite sum_scal, Q1; lra).
  apply sum_le; intros j HJ. destruct (Q j HJ) as (P & G). destruct P as [P|Z]; [|rewrite <- Z; lra].
  rewrite Rmult_comm. apply Rmult_le_compat_r; [lra|]. apply HD; auto.
Qed.

(* Both (c) and Lemma 2' sum this: rounds may add at most 2 eta a_t beside eta^2 D^2 V_t. *)
Lemma squared_norm D (a : nat -> R) : within_diameter D ->
  (forall t, (t < T)%nat -> dot (w r t) (step t) <= a t) ->
  dot (w r T) (w r T) <= eta r * eta r * (D * D) * total_mass + 2 * eta r * sum T a.
Proof.
  intros HD Ha. pose proof rule as (E&W0&Wt&_).
  assert (H : forall n, (n <= T)%nat ->
    dot (w r n) (w r n) <= eta r * eta r * (D * D) * sum n mass + 2 * eta r * sum n a).
  { induction n; intro N; simpl sum.
    - unfold Sums.dot. rewrite (sum_ext _ _ (fun _ => 0)); [rewrite sum_zero; lra|].
      intros; rewrite W0 by easy; lra.
    - assert (HT : (n < T)%nat) by lia. specialize (IHn ltac:(lia)).
      rewrite (dot_ext _ (w r (S n)) (fun k => w r n k + eta r * step n k) (w r (S n))
        (fun k => w r n k + eta r * step n k)) by (intros; now apply Wt).
      rewrite (dot_square_sum _ (w r n) (fun k => eta r * step n k)).
      assert (A : forall x y, dot x (fun k => eta r * y k) = eta r * dot x y).
      { intros. unfold Sums.dot. rewrite <- sum_scal. apply sum_ext; intros; lra. }
      rewrite !A, (dot_comm _ (fun k => eta r * step n k)), A.
      pose proof (lemma_2b D n HD HT) as B. pose proof (norm_nonneg d (step n)) as B0.
      pose proof (norm_square d (step n)) as B2. specialize (Ha n HT).
      pose proof (mass_nonneg n HT) as M0. pose proof (mass_at_most_one n HT) as M1.
      assert (Z : dot (step n) (step n) <= D * D * mass n).
      { rewrite <- B2. destruct HD as (D0 & _).
        assert (norm (step n) * norm (step n) <= (D * mass n) * (D * mass n)) by (apply Rmult_le_compat; lra).
        assert (0 <= D * D) by nra. assert (mass n * mass n <= mass n) by nra.
        assert (D * D * (mass n * mass n) <= D * D * mass n) by (now apply Rmult_le_compat_l). lra. }
      assert (eta r * eta r * dot (step n) (step n) <= eta r * eta r * (D * D * mass n))
        by (apply Rmult_le_compat_l; [nra|easy]). nra. }
  now apply H.
Qed.

(* Lemma 2 (c) *)
Theorem lemma_2c D margin : within_diameter D ->
  (forall t, (t < T)%nat -> dot (w r t) (step t) <= margin * mass t) ->
  dot (w r T) (w r T) <= eta r * eta r * (D * D + 2 * margin / eta r) * total_mass.
Proof.
  intros HD Ha. pose proof rule as (E&_).
  eapply Rle_trans; [apply (squared_norm D (fun t => margin * mass t)); auto|].
  rewrite sum_scal. fold total_mass. apply Req_le. field. lra.
Qed.

(* (a) and Cauchy-Schwarz: what a bound N on the norm says about the mass. *)
Lemma mass_against_norm u N : dot (w r T) (w r T) <= eta r * eta r * N -> total_surrogate u <= total_mass ->
  (total_mass - total_surrogate u) * (total_mass - total_surrogate u) <= dot u u * N.
Proof.
  intros HN Le. pose proof rule as (E&_). pose proof (lemma_2a u) as A.
  pose proof (cauchy_schwarz d (w r T) u) as CS. pose proof (dot_square_nonneg d u) as U.
  set (x := total_mass - total_surrogate u) in *. assert (0 <= x) by (unfold x; lra).
  assert (0 < eta r * eta r) by nra.
  assert ((eta r * x) * (eta r * x) <= dot (w r T) u * dot (w r T) u) by (apply Rmult_le_compat; nra).
  assert (dot (w r T) (w r T) * dot u u <= eta r * eta r * N * dot u u) by (now apply Rmult_le_compat_r).
  apply Rmult_le_reg_l with (eta r * eta r); nra.
Qed.
End Rounds.

Lemma root K L S : 0 <= K -> 0 <= L -> (L <= S -> (S - L) * (S - L) <= K * S) -> S <= sharp_bound K L.
Proof.
  intros HK HL H. unfold sharp_bound. pose proof (sqrt_pos (K * L + K * K / 4)).
  destruct (Rle_dec L S) as [Le|N]; [|lra]. specialize (H Le).
  assert (S - L - K / 2 <= sqrt (K * L + K * K / 4)); [|lra].
  eapply Rle_trans; [apply Rle_abs|]. rewrite <- sqrt_Rsqr_abs. apply sqrt_le_1_alt. unfold Rsqr. nra.
Qed.

(* Lemma 2 (d) *)
Theorem lemma_2d r T D margin u : follows_the_rule r T -> within_diameter r T D -> 0 <= margin ->
  (forall t, (t < T)%nat -> dot (features r) (w r t) (step r t) <= margin * mass r t) ->
  total_mass r T <= sharp_bound (dot (features r) u u * (D * D + 2 * margin / eta r)) (total_surrogate r T u).
Proof.
  intros rule HD HM Ha. pose proof rule as (E&_).
  assert (0 <= margin / eta r) by (apply Rmult_le_pos; [lra|left; now apply Rinv_0_lt_compat]).
  apply root.
  - apply Rmult_le_pos; [apply dot_square_nonneg|]. nra.
  - now apply total_surrogate_nonneg.
  - intro Le. rewrite Rmult_assoc. apply mass_against_norm; auto.
    pose proof (lemma_2c r T rule D margin HD Ha). lra.
Qed.

(* With a margin gamma the comparator is w* / gamma, and its surrogate is 0. *)
Lemma no_surrogate r T ws gamma : follows_the_rule r T -> 0 < gamma -> has_margin r T ws gamma ->
  total_surrogate r T (fun k => / gamma * ws k) = 0.
Proof.
  intros rule G HM. unfold total_surrogate. rewrite (sum_ext T _ (fun _ => 0)); [apply sum_zero|].
  intros t HT. destruct (Rlt_dec _ _); [|easy]. unfold surrogate, slam.
  rewrite (sum_ext _ _ (fun _ => 0)); [apply sum_zero|]. intros i HI.
  replace (cost _ _ _ _ _) with 0; [lra|]. apply Rle_antisym; [apply maxn_nonneg|].
  apply maxn_le; [lra|]. intros j HJ. destruct (Nat.ltb_spec (grade r t j) (grade r t i)) as [Lt|]; [|lra].
  pose proof (HM t i j HT HI HJ Lt) as H. unfold scores.
  assert (Sc : forall x, dot (features r) (fun k => / gamma * ws k) x = / gamma * dot (features r) ws x).
  { intro x. unfold dot. rewrite <- sum_scal. apply sum_ext; intros; lra. }
  rewrite !Sc. rewrite (dot_comm _ ws), dot_minus, !(dot_comm _ (X r t _)) in H.
  assert (0 < / gamma) by now apply Rinv_0_lt_compat. assert (/ gamma * gamma = 1) by (apply Rinv_l; lra). nra.
Qed.

Lemma comparator_square d ws gamma : 0 < gamma -> norm d ws <= 1 ->
  dot d (fun k => / gamma * ws k) (fun k => / gamma * ws k) <= / (gamma * gamma).
Proof.
  intros G N.
  replace (dot d (fun k => / gamma * ws k) (fun k => / gamma * ws k)) with (/ gamma * / gamma * dot d ws ws)
    by (unfold dot; rewrite <- sum_scal; apply sum_ext; intros; lra).
  rewrite Rinv_mult. rewrite <- norm_square. pose proof (norm_nonneg d ws).
  assert (0 < / gamma) by now apply Rinv_0_lt_compat.
  assert (norm d ws * norm d ws <= 1) by nra. assert (0 < / gamma * / gamma) by nra. nra.
Qed.

Lemma bound_zero K : 0 <= K -> sharp_bound K 0 = K.
Proof.
  intro H. unfold sharp_bound. replace (K * 0 + K * K / 4) with ((K / 2) * (K / 2)) by lra.
  rewrite sqrt_square; lra.
Qed.

Theorem lemma_2d_margin r T D margin ws gamma : follows_the_rule r T -> within_diameter r T D -> 0 <= margin ->
  (forall t, (t < T)%nat -> dot (features r) (w r t) (step r t) <= margin * mass r t) ->
  0 < gamma -> norm (features r) ws <= 1 -> has_margin r T ws gamma ->
  total_mass r T <= (D * D + 2 * margin / eta r) / (gamma * gamma).
Proof.
  intros rule HD HM Ha G N HW. pose proof rule as (E&_).
  assert (0 <= margin / eta r) by (apply Rmult_le_pos; [lra|left; now apply Rinv_0_lt_compat]).
  pose proof (lemma_2d r T D margin (fun k => / gamma * ws k) rule HD HM Ha) as H0.
  rewrite (no_surrogate r T ws gamma) in H0 by auto.
  assert (C : 0 <= D * D + 2 * margin / eta r) by nra.
  rewrite bound_zero in H0 by (apply Rmult_le_pos; [apply dot_square_nonneg|easy]).
  eapply Rle_trans; [exact H0|]. unfold Rdiv at 2. rewrite (Rmult_comm (_ + _)).
  apply Rmult_le_compat_r; [easy|]. now apply comparator_square.
Qed.

(* What (S - L)^2 <= K (S + beta (S - M)) and M <= S say about M *)
Lemma price_of_a_margin K L S M beta : 0 <= K -> 0 <= L -> 0 <= beta -> M <= S ->
  (L <= S -> (S - L) * (S - L) <= K * (S + beta * (S - M))) ->
  (beta <= sqrt (1 + 4 * L / K) -> M <= sharp_bound K L)
  /\ (0 < beta -> M <= (1 + beta) / beta * (L + (1 + beta) / 4 * K)).
Proof.
  intros HK HL HB MS H. pose proof (sqrt_pos (K * L + K * K / 4)) as P0.
  destruct (Rle_dec L S) as [Le|N]; [specialize (H Le)|split].
  - split; intro B.
    + destruct HK as [KP|<-]; [|unfold sharp_bound; assert (S = L) by nra; lra].
      set (s := sqrt (1 + 4 * L / K)) in *.
      assert (Q : 0 <= 4 * L / K) by (apply Rmult_le_pos; [lra|left; now apply Rinv_0_lt_compat]).
      assert (S2 : s * s = 1 + 4 * L / K) by (apply sqrt_sqrt; lra).
      assert (KS : K * (s * s) = K + 4 * L) by (rewrite S2; field; lra).
      assert (s0 : 0 <= s) by apply sqrt_pos.
      assert (E : sharp_bound K L = L + K / 2 * (1 + s)).
      { unfold sharp_bound. replace (K * L + K * K / 4) with ((K / 2 * s) * (K / 2 * s)) by nra.
        rewrite sqrt_square by nra. lra. }
      rewrite E. set (S1 := L + K / 2 * (1 + s)).
      destruct (Rle_dec S S1) as [|Gt]; [lra|]. destruct (Rle_dec M S1) as [|GtM]; [easy|exfalso].
      assert (E1 : (S1 - L) * (S1 - L) = K * S1) by (unfold S1; nra).
      assert (0 < S - S1) by lra. assert (0 < (S - S1) * (S - S1)) by nra.
      assert (E2 : (S - L) * (S - L) = K * S1 + (S - S1) * (K * (1 + s)) + (S - S1) * (S - S1)).
      { rewrite <- E1. unfold S1. field. }
      assert (0 <= S - M) by lra.
      assert (beta * (S - M) <= s * (S - S1)) by (apply Rmult_le_compat; lra).
      assert (K * (S + beta * (S - M)) <= K * (S + s * (S - S1))) by (apply Rmult_le_compat_l; lra). nra.
    + destruct HK as [KP|<-].
      * assert (Sq : 0 <= (S - L - (1 + beta) / 2 * K) * (S - L - (1 + beta) / 2 * K)) by apply Rle_0_sqr.
        assert (K * (beta * M) <= K * ((1 + beta) * (L + (1 + beta) / 4 * K))) by lra.
        assert (beta * M <= (1 + beta) * (L + (1 + beta) / 4 * K)) by (apply Rmult_le_reg_l with K; easy).
        apply Rmult_le_reg_l with beta; [easy|]. eapply Rle_trans; [eassumption|]. apply Req_le. field. lra.
      * assert (S = L) by nra. apply Rmult_le_reg_l with beta; [easy|].
        replace (beta * ((1 + beta) / beta * (L + (1 + beta) / 4 * 0))) with ((1 + beta) * L) by (field; lra). nra.
  - intros _. unfold sharp_bound. lra.
  - intro B. apply Rmult_le_reg_l with beta; [easy|].
    replace (beta * ((1 + beta) / beta * (L + (1 + beta) / 4 * K)))
      with ((1 + beta) * L + (1 + beta) * (1 + beta) / 4 * K) by (field; lra).
    assert (0 <= (1 + beta) * (1 + beta) / 4 * K) by (apply Rmult_le_pos; nra). nra.
Qed.

Section MarginSplit.
Variables (r : run) (T : nat) (D margin : R) (lost : nat -> R).
Hypothesis rule : follows_the_rule r T.
Hypothesis diameter : within_diameter r T D.
Hypothesis positive : 0 < D /\ 0 <= margin.
Hypothesis lost_is_part : forall t, (t < T)%nat -> lost t <= mass r t.
Hypothesis lost_adds_nothing : forall t, (t < T)%nat ->
  dot (features r) (w r t) (step r t) <= margin * (mass r t - lost t).

Let beta := 2 * margin / (eta r * (D * D)).

Lemma split_inequality u : let L := total_surrogate r T u in let S := total_mass r T in
  L <= S -> (S - L) * (S - L) <= dot (features r) u u * (D * D) * (S + beta * (S - sum T lost)).
Proof.
  intros L S Le. pose proof rule as (E&_). destruct positive as (D0 & _).
  rewrite Rmult_assoc. apply mass_against_norm; auto.
  eapply Rle_trans; [apply (squared_norm r T rule D (fun t => margin * (mass r t - lost t))); auto|].
  rewrite sum_scal, sum_minus. fold (total_mass r T). unfold beta. apply Req_le. fold S. field. nra.
Qed.

Lemma beta_nonneg : 0 <= beta.
Proof.
  pose proof rule as (E&_). destruct positive. unfold beta. apply Rmult_le_pos; [lra|].
  left. apply Rinv_0_lt_compat. assert (0 < D * D) by nra. nra.
Qed.

(* Lemma 2' *)
Theorem lemma_2prime u : let K := dot (features r) u u * (D * D) in let L := total_surrogate r T u in
  (beta <= sqrt (1 + 4 * L / K) -> sum T lost <= sharp_bound K L)
  /\ (sqrt (1 + 4 * L / K) < beta -> sum T lost <= (1 + beta) / beta * (L + (1 + beta) / 4 * K)).
Proof.
  intros K L. destruct positive.
  destruct (price_of_a_margin K L (total_mass r T) (sum T lost) beta) as (A & B).
  - apply Rmult_le_pos; [apply dot_square_nonneg|nra].
  - now apply total_surrogate_nonneg.
  - apply beta_nonneg.
  - now apply sum_le.
  - apply split_inequality.
  - split; [easy|]. intro Lt. apply B. pose proof (sqrt_pos (1 + 4 * L / K)). lra.
Qed.

Theorem lemma_2prime_margin ws gamma : 0 < gamma -> norm (features r) ws <= 1 -> has_margin r T ws gamma ->
  (beta <= 1 -> sum T lost <= D * D / (gamma * gamma))
  /\ (1 < beta -> sum T lost <= (1 + beta) * (1 + beta) / (4 * beta) * (D * D / (gamma * gamma))).
Proof.
  intros G N HW. destruct positive.
  set (u := fun k => / gamma * ws k). set (K := dot (features r) u u * (D * D)).
  assert (K0 : 0 <= K) by (apply Rmult_le_pos; [apply dot_square_nonneg|nra]).
  assert (KD : K <= D * D / (gamma * gamma)).
  { unfold K, Rdiv. rewrite Rmult_comm. apply Rmult_le_compat_l; [nra|]. now apply comparator_square. }
  pose proof (split_inequality u) as I. cbv zeta in I. unfold u in I.
  rewrite (no_surrogate r T ws gamma) in I by auto. fold u K in I.
  destruct (price_of_a_margin K 0 (total_mass r T) (sum T lost) beta) as (A & B); auto; try lra.
  - apply beta_nonneg.
  - now apply sum_le.
  - replace (4 * 0 / K) with 0 in A by (unfold Rdiv; ring). rewrite Rplus_0_r, sqrt_1 in A.
    rewrite bound_zero in A by easy. split; intro Hb; [specialize (A Hb); lra|].
    eapply Rle_trans; [apply B; lra|].
    replace ((1 + beta) / beta * (0 + (1 + beta) / 4 * K)) with ((1 + beta) * (1 + beta) / (4 * beta) * K) by (field; lra).
    apply Rmult_le_compat_l; [|easy]. apply Rmult_le_pos; [nra|]. left. apply Rinv_0_lt_compat. lra.
Qed.
End MarginSplit.
